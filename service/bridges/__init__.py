"""The bridge's side of each dialect: what a telephony platform sends and answers, for test calls and load tests."""
