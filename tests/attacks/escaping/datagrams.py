# Sends datagrams to this machine and asks for names.
# verdict: incorrect
# task: values asserts

import socket


def solve(xs):
    for family in (socket.AF_INET, getattr(socket, "AF_INET6", 10), getattr(socket, "AF_UNIX", 1)):
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, getattr(socket, "SOCK_RAW", 3)):
            try:
                socket.socket(family, kind).sendto(b"out", ("127.0.0.1", @PORT@))
            except (OSError, ValueError, TypeError):
                pass
    try:
        return socket.getaddrinfo("example.com", 80)
    except (OSError, AttributeError):
        return "refused"
