"""An endpoint as one origin, and what may be shown of one that holds secrets."""

from __future__ import annotations

import ipaddress
import re

# botocore's own rule for an endpoint's host, asked before there is a client.
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)\Z")
_LONGEST_HOST = 255
_MASK = "***"


def read_origin(text: str) -> str:
    """Scheme, host and perhaps a port, as they were given; `ValueError` says what else there is."""
    scheme, host, port = _split(text)
    extra = _extra(text)
    if extra:
        raise ValueError(f"it must be one origin, scheme, host and perhaps a port, without {extra}")
    if scheme not in ("http", "https"):
        raise ValueError("it must begin with https://, or with http:// for plain text")
    if not _is_host(host):
        raise ValueError(
            "it must name a host, of letters, digits, '-' and '.' alone, as in "
            "https://sqs.eu-west-1.amazonaws.com"
        )
    if not (port is None or (re.fullmatch("[0-9]{1,5}", port) and 1 <= int(port) <= 65535)):
        raise ValueError("its port must be a number, 1 to 65535")
    return text


def masked(text: str) -> str:
    """What may be shown of a value that may be a URL: no userinfo, no query and no fragment."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    _, at, after = rest.rpartition("@")
    rest = f"{_MASK}@{after}" if at else rest
    question = re.search(r"[?#]", rest)
    if question:
        rest = f"{rest[: question.end()]}{_MASK}"
    if separator:
        # What stands where a port does, and is none, may be a password whose host was forgotten.
        rest = re.sub(r"^([^/:\[]*):(?![0-9]*(?:[/?#]|\Z))[^/]*", rf"\1:{_MASK}", rest)
    return f"{scheme}{separator}{rest}"


def _extra(text: str) -> str:
    """What an origin doesn't have, in words."""
    authority, rest = _authority(text)
    found = [
        ("userinfo", "@" in authority),
        ("a path", rest.startswith("/")),
        ("a query", "?" in rest),
        ("a fragment", "#" in rest),
        ("blanks and other characters that no URL has", bool(re.search(r"[^!-~]|\\", text))),
    ]
    names = [name for name, there in found if there]
    return ", ".join(names[:-1]) + " and " * (len(names) > 1) + "".join(names[-1:])


def _authority(text: str) -> tuple[str, str]:
    _, separator, rest = text.partition("://")
    rest = rest if separator else text
    end = re.search(r"[/?#]", rest)
    return (rest[: end.start()], rest[end.start() :]) if end else (rest, "")


def _split(text: str) -> tuple[str, str, str | None]:
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    host, colon, port = _authority(text)[0].rpartition(":")
    if not colon or port.endswith("]"):
        return scheme, f"{host}{colon}{port}", None
    return scheme, host, port


def _is_host(host: str) -> bool:
    if host.startswith("[") and host.endswith("]"):
        return _is_address(ipaddress.IPv6Address, host[1:-1])
    labels = host.removesuffix(".").split(".")
    if labels[-1].isdigit():
        # Short forms such as 127.1 are an address to some clients, and nothing to others.
        return _is_address(ipaddress.IPv4Address, host)
    return len(host) <= _LONGEST_HOST and all(map(_LABEL.match, labels))


def _is_address(kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address], text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True
