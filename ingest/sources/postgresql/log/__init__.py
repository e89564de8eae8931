"""PostgreSQL's log: messages of pgoutput, their values, its slot."""
