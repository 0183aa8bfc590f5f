"""What operates the service: rules, dashboards, images, chart. Nothing here is imported by the service."""
