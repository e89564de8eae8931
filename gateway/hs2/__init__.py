"""HiveServer2's wire protocol without sockets: bytes in, events out, bytes back.

Pure: standard library and `core.errors` only. Must not know who is asking, what a
statement means, or how bytes travel.
"""
