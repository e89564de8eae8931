"""A siege of the gateway: hostile clients beside well-behaved ones.

Everything goes through public doors of a running product: HiveServer2 and REST.
"""
