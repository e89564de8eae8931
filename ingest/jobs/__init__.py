"""The life of a job: created, claimed, handed to a driver, judged, finished."""
