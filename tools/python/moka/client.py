"""Asks a server of `moka serve` (or another of the Open Inference Protocol, version 2) from Python.

    async with moka.client.Client("http://127.0.0.1:8000") as client:
        answers = await asyncio.gather(*(client.predict(path) for path in paths))
        outputs = await client.infer({"data": array})          # numpy arrays in, numpy arrays out

    with moka.client.SyncClient("http://127.0.0.1:8000", token=token) as client:
        print(client.predict("digit.png"))

Calls wait while the server is away, starts or has too much to do, for `patience` seconds: one that is killed and
started again loses none. What it refuses is raised as moka.Error. Nothing but the standard library is needed, and numpy
for tensors.
"""

import asyncio
import json
import os
import ssl
import threading
import time
from urllib.parse import quote, urlsplit

from . import _tls
from ._errors import Error
from ._errors import error_of as _error

__all__ = ["Client", "SyncClient"]

_HEAD_BYTES = 64 << 10
_JSON_BYTES = 16 << 20
_DATATYPES = {"FP32": "<f4", "FP64": "<f8", "FP16": "<f2", "INT8": "<i1", "INT16": "<i2", "INT32": "<i4",
              "INT64": "<i8", "UINT8": "<u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "BOOL": "|b1"}


def _kind_of(status):
    if status in (401, 403):
        return "not allowed"
    if status == 404:
        return "no input"
    if status in (429, 502, 503, 504):
        return "unavailable"
    return "bad data" if 400 <= status < 500 else "peer"


class _Gone(Exception):
    """The server is not there, or went before its answer was whole."""


class _Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body


class Client:
    """A server, asked over as many connections as there are calls at once, `connections` at most.

    url         "http://HOST:PORT" or "https://HOST:PORT", with a path where a proxy has the server below one
    token       what `Authorization: Bearer` carries
    timeout     seconds for an answer; patience: seconds in which a call is made again where the server is away or full
    ca          of https: a file in PEM with the server's authority, or its own certificate, in place of those that
                this machine trusts
    tls         an ssl.SSLContext in place of TLS 1.2 and later with a certificate of the url's host

    One event loop.
    """

    def __init__(self, url, token=None, connections=8, timeout=60.0, patience=30.0, most_bytes=64 << 20, tls=None,
                 ca=None):
        parts = urlsplit(url)
        plain = all(" " < letter < "\x7f" for letter in url)
        try:
            port = parts.port
        except ValueError:
            plain, port = False, None
        if not plain or parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or \
                parts.query or parts.fragment:
            raise _error("usage", "{!r} is no address of a server".format(url),
                         "expected http://HOST:PORT or https://HOST:PORT")
        if token is not None and not (token and all(" " < letter < "\x7f" for letter in token)):
            raise _error("usage", "the token is not one word of letters, digits and signs")
        if connections < 1:
            raise _error("usage", "connections is {}, and one is the least".format(connections))
        self._host, self._port = parts.hostname, port or (443 if parts.scheme == "https" else 80)
        self._path = parts.path.rstrip("/")
        if (tls is not None or ca is not None) and parts.scheme != "https":
            raise _error("usage", "ca= and tls= are of servers that speak TLS", "expected https://" + self._name())
        if tls is not None and ca is not None:
            raise _error("usage", "ca= belongs into the context that tls= gives")
        self._tls = (tls or _tls.trust(ca)) if parts.scheme == "https" else None
        self._token, self._timeout, self._patience, self._most_bytes = token, timeout, patience, most_bytes
        self._connections = connections
        self._room = None  # a semaphore, which belongs to the loop that it is made in
        self._idle = []
        self._only = None  # the model that is asked where none is named

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    async def close(self):
        """Closes the connections that no call uses. The client opens others for later calls."""
        idle, self._idle = self._idle, []
        for _, writer in idle:
            writer.close()
        for _, writer in idle:
            try:
                await writer.wait_closed()
            except (OSError, ssl.SSLError):
                pass

    # What the server is asked.

    async def live(self):
        """Whether the server runs; asked once."""
        return await self._answers("/v2/health/live")

    async def ready(self):
        """Whether the server answers for all of its models; asked once."""
        return await self._answers("/v2/health/ready")

    async def models(self):
        """A list of {"name", "version", "state", "reason"}; "READY" is the state of one that answers."""
        models = await self._json("POST", "/v2/repository/index")
        if not isinstance(models, list) or not all(isinstance(m, dict) and "name" in m for m in models):
            raise _error("peer", "the server lists no models")
        return models

    async def facts(self, model=None):
        """The model's inputs and outputs: {"name", "versions", "inputs": [{"name", "datatype", "shape"}], ...}."""
        return await self._json("GET", await self._model_path(model))

    async def predict(self, source, model=None, name=None, draw=False):
        """What `moka infer --json` says of a picture or a text.

        source  a path, or the bytes of a file; name: what the answer calls the file
        draw    the bytes of a PNG with the answer drawn on the picture, of models that draw
        """
        if isinstance(source, (bytes, bytearray, memoryview)):
            body, shown = bytes(source), name or ""
        else:
            shown = name or os.fspath(source)
            body = await asyncio.get_running_loop().run_in_executor(None, _bytes_of, source)
        sent = os.path.basename(shown)
        path = await self._model_path(model) + "/predict" + ("/" + quote(sent, safe="") if sent else "")
        headers = {"Content-Type": "application/octet-stream"}
        if draw:
            reply = await self._call("POST", path, body, dict(headers, Accept="image/png"))
            if not reply.body.startswith(b"\x89PNG\r\n\x1a\n"):
                raise _error("peer", "the server's drawing is no PNG")
            return reply.body
        answer = await self._json("POST", path, body, headers)
        if isinstance(answer, list) and len(answer) == 1 and isinstance(answer[0], dict) and "file" in answer[0]:
            answer[0]["file"] = shown
        return answer

    async def infer(self, inputs, model=None, outputs=None, classes=None, priority=None, timeout_us=None):
        """Runs tensors through the net: {name: array} in, {name: array} out, all as bytes.

        inputs      arrays [N,...] of the dtype that the input has (float32), or a list of bytes: files of pictures
        outputs     names of those that are wanted (default: all)
        classes     so many best classes in place of an output's numbers: texts "SCORE:INDEX:LABEL"
        priority, timeout_us    of the request in the server's queue
        """
        tensors, blobs = [], []
        for name, value in inputs.items():
            datatype, shape, blob = _packed(name, value)
            tensors.append({"name": name, "datatype": datatype, "shape": shape,
                            "parameters": {"binary_data_size": len(blob)}})
            blobs.append(blob)
        request = {"inputs": tensors, "parameters": {"binary_data_output": True}}
        if priority is not None:
            request["parameters"]["priority"] = priority
        if timeout_us is not None:
            request["parameters"]["timeout"] = timeout_us
        path = await self._model_path(model)
        if outputs is None and classes is not None:
            outputs = [output["name"] for output in (await self.facts(model))["outputs"]]
        if outputs is not None:
            request["outputs"] = [{"name": output} for output in outputs]
        if classes is not None:
            for output in request["outputs"]:
                output["parameters"] = {"classification": classes}
        head = json.dumps(request).encode()
        reply = await self._call("POST", path + "/infer", head + b"".join(blobs),
                                 {"Inference-Header-Content-Length": str(len(head)),
                                  "Content-Type": "application/octet-stream"})
        return _unpacked(reply)

    async def load(self, model):
        """Loads a model anew; the server has to allow it, and the token to be an admin's."""
        await self._call("POST", "/v2/repository/models/{}/load".format(quote(model, safe="")))

    async def unload(self, model):
        """Takes a model out of service."""
        await self._call("POST", "/v2/repository/models/{}/unload".format(quote(model, safe="")))

    # How it is asked.

    async def _answers(self, path):
        try:
            return (await self._exchange("GET", path, b"", {})).status == 200
        except _Gone:
            return False

    async def _model_path(self, model):
        if model is None and self._only is None:
            names = list(dict.fromkeys(one["name"] for one in await self.models()))  # a row a version
            if len(names) != 1:
                raise _error("usage", "the server has {} models".format(len(names)),
                             "model= says which to ask: " + ", ".join(names))
            self._only = names[0]
        return "/v2/models/" + quote(model or self._only, safe="")

    async def _json(self, method, path, body=b"", headers=None):
        reply = await self._call(method, path, body, headers)
        return _json_of(reply.body)

    async def _call(self, method, path, body=b"", headers=None):
        """The reply of a status of 2xx, after as many tries as patience has."""
        last = None
        pause = 0.05
        while True:
            try:
                reply = await self._exchange(method, path, body, headers or {})
                if 200 <= reply.status < 300:
                    return reply
                failure = self._tls_refusal(reply) or _refusal(reply)
                if reply.status not in (429, 502, 503):
                    raise failure
                after = reply.headers.get("retry-after", "")
                wait = max(pause, float(after) if after.isdigit() and len(after) < 6 else 0.0)
            except _Gone as gone:
                failure, wait = _error("peer", str(gone)), pause
            now = time.monotonic()
            last = now + self._patience if last is None else last
            if now + wait > last:
                raise failure from None
            await asyncio.sleep(wait)
            pause = min(2 * pause, 1.0)

    async def _exchange(self, method, path, body, headers):
        if self._room is None:
            self._room = asyncio.Semaphore(self._connections)
        async with self._room:
            try:
                return await asyncio.wait_for(self._exchange_once(method, path, body, headers), self._timeout)
            except asyncio.TimeoutError:
                raise _error("peer", "{} gave no answer within {:g} s".format(self._name(), self._timeout)) from None

    async def _exchange_once(self, method, path, body, headers):
        while True:
            was_idle = bool(self._idle)
            reader, writer = self._idle.pop() if was_idle else await self._connect()
            keeps = False
            try:
                reply = await self._talk(reader, writer, method, path, body, headers)
                keeps = reply.headers.get("connection", "").lower() != "close"
                return reply
            except (OSError, EOFError, ssl.SSLError) as error:
                # A connection that was kept may have been closed since, which only a call finds out.
                if not was_idle:
                    raise _Gone("{} broke off ({})".format(self._name(), error or "the end of the answer")) from None
            finally:
                if keeps:
                    self._idle.append((reader, writer))
                else:
                    writer.close()

    async def _connect(self):
        try:
            return await asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=_HEAD_BYTES)
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError) as error:
            raise _Gone("{} broke off the handshake of TLS: {}".format(self._name(), error)) from None
        except ssl.SSLError as error:
            raise _tls.fault(self._name(), error) from None
        except (OSError, EOFError) as error:
            raise _Gone("cannot reach {}: {}".format(self._name(), error)) from None

    def _tls_refusal(self, reply):
        """What a port of TLS says to who does not speak it: moka serve 426, nginx and others 400."""
        wants_tls = reply.status == 426 or (reply.status == 400 and b"HTTPS" in reply.body)
        return self._wants_tls() if wants_tls and self._tls is None else None

    def _wants_tls(self):
        return _error("peer", self._name() + " speaks TLS", "ask https://" + self._name())

    async def _talk(self, reader, writer, method, path, body, headers):
        lines = ["{} {} HTTP/1.1".format(method, self._path + path), "Host: " + self._name(), "User-Agent: moka-python"]
        if self._token:
            lines.append("Authorization: Bearer " + self._token)
        if method != "GET":
            lines.append("Content-Length: {}".format(len(body)))
        lines += ["{}: {}".format(name, value) for name, value in headers.items()]
        writer.write("\r\n".join(lines + ["", ""]).encode("ascii") + body)
        try:
            await writer.drain()
        except OSError:
            pass  # an answer may have come before all was sent
        return await self._read(reader)

    async def _read(self, reader):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise self._nonsense("a head of more than {} bytes".format(_HEAD_BYTES)) from None
        except asyncio.IncompleteReadError as error:
            # Bytes of another protocol, TLS's alert among them, are told from an end.
            if self._tls is None and error.partial.startswith(b"\x15\x03"):
                raise self._wants_tls() from None
            if error.partial and not error.partial.startswith(b"HTTP/1."[:len(error.partial)]):
                raise self._nonsense("what is no HTTP") from None
            raise
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ", 2)
        number = words[1] if len(words) > 1 else ""
        if words[0] not in ("HTTP/1.1", "HTTP/1.0") or not (number.isascii() and number.isdigit() and len(number) == 3):
            raise self._nonsense("what is no HTTP")
        status = int(number)
        if status < 200:
            raise self._nonsense("a status of {} and no answer".format(status))
        headers = {}
        for line in lines[1:-2]:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise self._nonsense("a header that is none")
            headers[name.lower()] = value.strip()
        if words[0] == "HTTP/1.0":
            headers["connection"] = "close"
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return _Reply(status, headers, await self._read_chunks(reader))
        length = headers.get("content-length", "")
        if status in (204, 304):
            length = "0"
        if not (length.isdigit() and length.isascii() and len(length) < 16):
            raise self._nonsense("an answer without its length")
        self._bound(int(length))
        return _Reply(status, headers, await reader.readexactly(int(length)))

    async def _read_chunks(self, reader):
        body = bytearray()
        while True:
            try:
                line = (await reader.readuntil(b"\r\n")).split(b";")[0].strip()
                size = int(line, 16) if line.isalnum() and len(line) < 16 else -1
            except (asyncio.LimitOverrunError, ValueError):
                size = -1
            if size < 0:
                raise self._nonsense("a chunk without its size")
            self._bound(len(body) + size)
            body += await reader.readexactly(size)
            end = await reader.readexactly(2)
            if end != b"\r\n":
                raise self._nonsense("a chunk that does not end")
            if size == 0:
                return bytes(body)

    def _bound(self, size):
        if size > self._most_bytes:
            raise _error("peer", "{} sends an answer of more than {} bytes".format(self._name(), self._most_bytes))

    def _nonsense(self, what):
        return _error("peer", "{} answers with {}".format(self._name(), what))

    def _name(self):
        host = "[{}]".format(self._host) if ":" in self._host else self._host
        return "{}:{}".format(host, self._port)


class SyncClient:
    """A Client for code without an event loop: each call waits for its answer. Several threads may call."""

    def __init__(self, url, **settings):
        self._client = Client(url, **settings)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the connections and the client."""
        if self._thread is None:
            return
        self._wait(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._thread = None

    def _wait(self, call):
        if self._thread is None:
            call.close()
            raise _error("usage", "the client is closed")
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


def _waiting(name):
    method = getattr(Client, name)

    def call(self, *args, **kwargs):
        return self._wait(method(self._client, *args, **kwargs))

    call.__name__, call.__doc__ = name, method.__doc__
    return call


for _name in ("live", "ready", "models", "facts", "predict", "infer", "load", "unload"):
    setattr(SyncClient, _name, _waiting(_name))


def _bytes_of(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise _error("no input", "cannot open {}: {}".format(path, error.strerror)) from None


def _json_of(body):
    if len(body) > _JSON_BYTES:
        raise _error("peer", "the server answers with {} bytes of JSON".format(len(body)))
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise _error("peer", "the server answers with what is no JSON: {!r}".format(body[:60])) from None


def _refusal(reply):
    """What the server says of a refusal; a proxy before it may say it in another form."""
    text = hint = ""
    try:
        said = _json_of(reply.body)
        if isinstance(said, dict):
            text, hint = str(said.get("error", ""))[:1000], str(said.get("hint", ""))[:1000]
    except Error:
        pass
    error = _error(_kind_of(reply.status), text or "the server answers with a status of {}".format(reply.status), hint)
    error.status = reply.status
    return error


def _packed(name, value):
    """A tensor's datatype, shape and little-endian bytes."""
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, (bytes, bytearray)) for one in value):
        return "BYTES", [len(value)], b"".join(len(one).to_bytes(4, "little") + bytes(one) for one in value)
    import numpy
    array = numpy.asarray(value)
    for datatype, dtype in _DATATYPES.items():
        if array.dtype.newbyteorder("<") == numpy.dtype(dtype):
            little = numpy.ascontiguousarray(array, dtype=dtype)
            return datatype, list(array.shape), little.tobytes()
    raise _error("usage", "input {!r} is of the dtype {}, which no tensor has".format(name, array.dtype),
                 "its astype(\"float32\") has one")


def _unpacked(reply):
    import numpy
    try:
        head = int(reply.headers["inference-header-content-length"])
        if not 0 <= head <= len(reply.body):
            raise ValueError("the length of the JSON")
        at, arrays = head, {}
        for output in _json_of(reply.body[:head])["outputs"]:
            size, shape, datatype = output["parameters"]["binary_data_size"], output["shape"], output["datatype"]
            if type(size) is not int or size < 0 or at + size > len(reply.body):
                raise ValueError("the size of an output")
            blob = reply.body[at:at + size]
            at += size
            values = numpy.array(_texts_of(blob), dtype=object) if datatype == "BYTES" else \
                numpy.frombuffer(blob, dtype=_DATATYPES[datatype])
            if any(type(side) is not int or side < 0 for side in shape):
                raise ValueError("the shape of an output")
            arrays[output["name"]] = values.reshape(shape).copy()
        if at != len(reply.body):
            raise ValueError("bytes behind the last output")
        return arrays
    except (KeyError, TypeError, ValueError) as error:
        raise _error("peer", "the server's tensors are malformed ({})".format(error)) from None


def _texts_of(blob):
    texts, at = [], 0
    while at < len(blob):
        size = int.from_bytes(blob[at:at + 4], "little")
        if at + 4 + size > len(blob):
            raise ValueError("the length of a text")
        texts.append(blob[at + 4:at + 4 + size].decode("utf-8", "replace"))
        at += 4 + size
    return texts
