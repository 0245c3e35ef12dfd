"""Whom the client of served models believes over TLS, and why not."""

import ssl

from ._errors import error_of

_PARTIAL_CHAIN = 0x80000  # X509_V_FLAG_PARTIAL_CHAIN, which Python names from 3.10 on
_BEGINS_LATER, _HAS_ENDED, _OTHER_NAME, _OTHER_ADDRESS = 9, 10, 62, 64  # X509_V_ERR_* of OpenSSL
_HINTS = {_BEGINS_LATER: "it has to be renewed there, or this machine's clock is wrong",
          _HAS_ENDED: "it has to be renewed there, or this machine's clock is wrong",
          _OTHER_NAME: "ask it by a name of its certificate",
          _OTHER_ADDRESS: "ask it by a name of its certificate"}


def trust(ca):
    """A context of TLS 1.2 and later for certificates that name their host where RFC 9525 has names.

    ca      a file in PEM with authorities, or with the server's own certificate; None: those of this machine
    """
    try:
        context = ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise error_of("bad data", "{} has no certificate in PEM: {}".format(ca, error.reason or error)) from None
    except OSError as error:
        raise error_of("no input", "cannot open {}: {}".format(ca, error.strerror)) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    if ca is not None:
        context.verify_flags |= _PARTIAL_CHAIN
    return context


def fault(server, error):
    """The error to be raised for a handshake that failed with an ssl.SSLError."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error_of("peer", "{} shows a certificate that is not trusted: {}".format(server, error.verify_message),
                        _HINTS.get(error.verify_code, "ca= takes its authority's certificate, or the server's own"))
    if error.reason == "WRONG_VERSION_NUMBER":
        return error_of("peer", server + " speaks no TLS", "a server of plain HTTP is asked at http://" + server)
    return error_of("peer", "{} and this client have no TLS in common: {}".format(server, error.reason or error),
                    "TLS 1.2 and later are spoken, without a certificate of the client")
