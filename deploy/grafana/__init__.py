"""Dashboards as code: `boards` says what is asked, `dashboards` builds Grafana's JSON, `pictures` plots the same queries."""
