"""The Helm chart and the tool that checks it."""
