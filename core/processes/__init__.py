"""Child processes: started, known again, stopped and killed in one way everywhere."""
