"""``tune doctor``: is a host fit for a study? What was seen of it, and one function a check."""
