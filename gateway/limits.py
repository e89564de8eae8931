"""How much one gateway process takes on; plain numbers with their units."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_NAME = 255
# settings that a client may open a session with
MOST_SETTINGS = 200


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Counts, and times in seconds."""

    connections: int = 4000
    # of those not logged in: addresses share them, the oldest of the one with most goes
    connections_before_login: int = 1000
    connections_per_user: int = 1500
    connections_per_address: int = 3000
    sessions_per_user: int = 1500
    operations_per_session: int = 100
    # statements, in all their sessions: the engine keeps something for each
    operations_per_user: int = 1000
    # of answers to metadata calls that are not closed; the oldest go first
    answered_rows_per_session: int = 200_000
    answered_rows_per_user: int = 400_000
    # of all users: the oldest of the user with most go
    answered_rows: int = 2_000_000
    statements_running: int = 32
    statements_running_per_user: int = 24
    statements_queued: int = 500
    statements_queued_per_user: int = 200
    engine_sessions: int = 200
    # the rest is for others, whatever one user opens
    engine_sessions_per_user: int = 150
    warm_sessions: int = 16
    # in an engine, left by statements over REST for the next ones of the same user
    idle_sessions: int = 16
    idle_sessions_per_user: int = 8
    idle_session_seconds: float = 60.0
    login_seconds: float = 15.0
    # a driver of one socket sends its cancel only behind the reply to its poll
    long_poll_seconds: float = 0.5
    session_idle_seconds: float = 6 * 3600.0
    # of a session that no connection keeps open, as those over HTTP
    detached_idle_seconds: float = 3600.0
    # between two requests of an HTTP connection
    keep_alive_seconds: float = 120.0
    # after this a client of HTTP proves itself anew, by password or token
    http_login_seconds: float = 3600.0
    operation_idle_seconds: float = 3600.0
    # from its start to its last row; the lake keeps replaced files as long
    statement_seconds: float = 1800.0
    engine_wait_seconds: float = 240.0
    # one statement in UTF-8, and what belongs to it
    max_request: int = 5 * 1024 * 1024
    max_statement: int = 1024 * 1024
    # characters of the statements that wait or run
    statement_texts: int = 64 * 1024 * 1024
    statement_texts_per_user: int = 16 * 1024 * 1024
    # of the names of tables and columns that open results were read from
    read_list_bytes: int = 64 * 1024 * 1024
    read_list_bytes_per_user: int = 8 * 1024 * 1024
    # received of messages that are not there as a whole, of all clients
    unfinished_bytes: int = 64 * 1024 * 1024
    message_seconds: float = 60.0
    # for a client to read what is written to it already
    unread_seconds: float = 300.0
    # of calls sent ahead while one is served; then the socket is not read
    pipelined_bytes: int = 256 * 1024
    max_fetch_rows: int = 100_000
    # of replies that a client may leave; then no further call of that client is served
    write_high_water: int = 256 * 1024
    # of all replies that are left, beyond that of each connection: sixty large ones
    unread_bytes: int = 512 * 1024 * 1024
    read_ahead_bytes: int = 64 * 1024 * 1024
    read_ahead_batch_bytes: int = 8 * 1024 * 1024
    close_disabled_within: float = 2.0
    # of replies on their way to the web process; who finds no room waits for it
    reply_bytes: int = 16 * 1024 * 1024
    # of results over REST, of all users and of one
    result_bytes: int = 16 * 1024 * 1024 * 1024
    result_bytes_per_user: int = 8 * 1024 * 1024 * 1024
