"""Dates that sort and say the second: an audit log is read by them."""

DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = "Y-m-d H:i:s"
