"""The client of served models: the answers of `moka infer`, calls that outlive the server, and servers that lie."""

import asyncio
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))

import moka  # noqa: E402
from moka.client import Client, SyncClient  # noqa: E402

MOKA = os.environ["MOKA_BINARY"]
MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models")


def run(folder, *words):
    return subprocess.run([MOKA, *words], cwd=folder, check=True, capture_output=True, text=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1")).stdout


class Server:
    """A process of moka serve."""

    def __init__(self, folder, *words, port=0):
        self.process = subprocess.Popen([MOKA, "serve", *words, "--port", str(port)], cwd=folder, text=True,
                                        stderr=subprocess.PIPE, env=dict(os.environ, OMP_NUM_THREADS="1"))
        log = ""
        while "try: " not in log:
            line = self.process.stderr.readline()
            if not line:
                raise RuntimeError("the server is not ready: " + log)
            log += line
        self.url, port = re.search("listening at (https?://127.0.0.1:([0-9]+))", log).groups()
        self.port = int(port)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stderr.close()


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        run(cls.folder, "data", "import", "glyphs:12:1", "db")
        run(cls.folder, "data", "export", "db", "drawn")
        cls.pictures = sorted(os.path.join(path, name) for path, _, names in os.walk(os.path.join(cls.folder, "drawn"))
                              for name in names if name.endswith(".png"))
        cls.model = os.path.join(MODELS, "lenet")
        cls.server = Server(cls.folder, cls.model)

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        shutil.rmtree(cls.folder)

    def caught(self, kind, call, *args, **kwargs):
        with self.assertRaises(moka.Error) as caught:
            call(*args, **kwargs)
        self.assertEqual(caught.exception.kind, kind, caught.exception)
        return str(caught.exception)

    def test_answers_are_those_of_infer(self):
        expected = json.loads(run(self.folder, "infer", self.model, *self.pictures, "--json", "--batch", "1"))
        self.assertEqual(len(expected), len(self.pictures))
        with SyncClient(self.server.url) as client:
            for path, answer in zip(self.pictures, expected):
                self.assertEqual(client.predict(path), [answer])
            with open(self.pictures[0], "rb") as file:
                picture = file.read()
            self.assertEqual(client.predict(picture, name=self.pictures[0]), [expected[0]])
            self.assertEqual(client.predict(picture)[0]["top"], expected[0]["top"])

    def test_tensors(self):
        with SyncClient(self.server.url) as client:
            rows = np.random.RandomState(1).rand(5, 1, 28, 28).astype("float32")
            prob = client.infer({"data": rows})["prob"]
            self.assertEqual((prob.shape, prob.dtype), ((5, 10), np.dtype("float32")))
            np.testing.assert_allclose(prob.sum(axis=1), 1, rtol=1e-5)
            np.testing.assert_allclose(client.infer({"data": rows[3:4]})["prob"][0], prob[3], rtol=1e-4, atol=1e-6)
            best = client.infer({"data": rows}, classes=2)["prob"]
            self.assertEqual(best.shape, (5, 2))
            score, index = best[0][0].split(":")[:2]
            self.assertEqual(int(index), prob[0].argmax())
            self.assertAlmostEqual(float(score), prob[0].max(), places=5)
            with open(self.pictures[0], "rb") as file:
                of_picture = client.infer({"data": [file.read()]}, outputs=["prob"])["prob"]
            self.assertAlmostEqual(of_picture.max(), client.predict(self.pictures[0])[0]["top"][0]["score"], places=5)
            self.assertIn("takes FP32", self.caught("bad data", client.infer, {"data": rows.astype("float64")}))
            self.assertIn("expected [-1,1,28,28]", self.caught("bad data", client.infer, {"data": rows[:, :, :5]}))
            self.assertIn("it has data", self.caught("bad data", client.infer, {"dat": rows}))
            self.assertIn("no tensor has", self.caught("usage", client.infer, {"data": np.array(["a"])}))
            self.assertIn("priority", self.caught("bad data", client.infer, {"data": rows}, priority=99))

    def test_states_and_refusals(self):
        with SyncClient(self.server.url) as client:
            self.assertTrue(client.live() and client.ready())
            self.assertEqual([(m["name"], m["state"]) for m in client.models()], [("lenet", "READY")])
            self.assertEqual(client.facts()["inputs"][0]["shape"], [-1, 1, 28, 28])
            self.assertIn('did you mean "lenet"', self.caught("no input", client.facts, model="lenot"))
            self.assertIn("no picture", self.caught("bad data", client.predict, b"a text"))
            self.assertIn("nothing.png", self.caught("no input", client.predict, "nothing.png"))
            self.assertIn("draws nothing", self.caught("bad data", client.predict, self.pictures[0], draw=True))
            self.caught("not allowed", client.unload, "lenet")
        self.caught("usage", client.ready)
        for url in ("127.0.0.1:8000", "ftp://here", "http://", "http://a:b", "http://a b", "http://u:p@h"):
            self.caught("usage", Client, url)
        self.caught("usage", Client, "http://here", token="two words")
        with SyncClient("http://127.0.0.1:1", patience=0) as away:
            self.assertFalse(away.live())
            self.assertIn("cannot reach 127.0.0.1:1", self.caught("peer", away.models))

    def test_many_calls_share_few_connections(self):
        async def ask():
            async with Client(self.server.url, connections=3) as client:
                answers = await asyncio.gather(*(client.predict(path) for path in self.pictures * 5))
                return answers, len(client._idle)
        answers, connections = asyncio.run(ask())
        self.assertEqual([answer[0]["file"] for answer in answers], self.pictures * 5)
        self.assertLessEqual(connections, 3)

    def test_a_server_that_is_killed_loses_nothing(self):
        server = Server(self.folder, self.model)
        expected = SyncClient(server.url).predict(self.pictures[0])

        async def ask():
            nonlocal server
            asked = 0

            async def one(client):
                nonlocal asked
                for _ in range(60):
                    self.assertEqual(await client.predict(self.pictures[0]), expected)
                    asked += 1
                    await asyncio.sleep(0.005)

            async with Client(server.url, connections=4) as client:
                calls = asyncio.gather(*(one(client) for _ in range(4)))
                await asyncio.sleep(0.1)
                server.kill()
                self.assertLess(asked, 240)
                loop = asyncio.get_running_loop()
                port = server.port
                server = await loop.run_in_executor(None, lambda: Server(self.folder, self.model, port=port))
                await calls
            return asked
        try:
            self.assertEqual(asyncio.run(ask()), 240)
        finally:
            server.kill()

    def against(self, answer, call, certificate=None, **settings):
        """What `call` comes to with a server that gives `answer` to every request."""
        async def serve(reader, writer):
            try:
                while await reader.readuntil(b"\r\n\r\n"):
                    writer.write(answer)
                    await writer.drain()
                    if not answer.startswith(b"HTTP/1.1 "):
                        break
            except (OSError, EOFError):
                pass
            writer.close()

        async def ask():
            server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=certificate)
            port = server.sockets[0].getsockname()[1]
            url = "{}://localhost:{}".format("https" if certificate else "http", port)
            try:
                async with Client(url, **dict({"patience": 0.1, "timeout": 1}, **settings)) as client:
                    return await call(client)
            finally:
                server.close()
        return asyncio.run(ask())

    def test_servers_that_lie(self):
        def text(body, status="200 OK", headers=""):
            return "HTTP/1.1 {}\r\nContent-Length: {}\r\n{}\r\n{}".format(status, len(body), headers, body).encode()
        for name, answer, kind, told in (
                ("SSH", b"SSH-2.0-OpenSSH\r\n", "peer", "no HTTP"),
                ("nothing", b"", "peer", "broke off|cannot reach"),
                ("half of a body", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[", "peer", "no answer within|broke off"),
                ("a long head", b"HTTP/1.1 200 OK\r\nA: " + b"a" * 100000 + b"\r\n\r\n", "peer", "a head of more"),
                ("a wrong length", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "peer", "without its length"),
                ("a huge length", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "peer", "more than"),
                ("a wrong chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "peer", "chunk"),
                ("an interim answer", b"HTTP/1.1 100 Continue\r\n\r\n", "peer", "status of 100"),
                ("a wrong status", b"HTTP/1.1 2x0 OK\r\n\r\n", "peer", "no HTTP"),
                ("no JSON", text("hello"), "peer", "no JSON"),
                ("deep JSON", text("[" * 200000), "peer", "no JSON"),
                ("no list", text("{}"), "peer", "lists no models"),
                ("a proxy's error", text("<html>", "500 Error"), "peer", "status of 500"),
                ("too much to do", text('{"error":"full"}', "503 Busy", "Retry-After: 9\r\n"), "unavailable", "full"),
                ("no right", text('{"error":"a token"}', "401 No"), "not allowed", "a token")):
            with self.subTest(name):
                begin = time.monotonic()
                message = self.caught(kind, self.against, answer, lambda client: client.models())
                self.assertRegex(message, told)
                self.assertLess(time.monotonic() - begin, 5)
        head = b'{"outputs":[{"name":"a","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}}]}'

        def tensors(json_text, blob, length=None):
            return "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nInference-Header-Content-Length: {}\r\n\r\n".format(
                len(json_text) + len(blob), len(json_text) if length is None else length).encode() + json_text + blob

        def infer(client):
            return client.infer({"a": np.zeros(2, "float32")}, model="m")
        good = self.against(tensors(head, np.float32([1, 2]).tobytes()), infer)
        np.testing.assert_array_equal(good["a"], [1, 2])
        for name, answer in (("too few bytes", tensors(head, b"1234")), ("too many", tensors(head, b"1" * 12)),
                             ("a wrong head", tensors(head, b"1" * 8, 1000)),
                             ("a wrong shape", tensors(head.replace(b"[2]", b"[3]"), b"1" * 8)),
                             ("a shape below 0", tensors(head.replace(b"[2]", b"[-1]"), b"1" * 8)),
                             ("a size below 0", tensors(head.replace(b":8}", b":-8}"), b"")),
                             ("a type that is none", tensors(head.replace(b"FP32", b"FP33"), b"1" * 8)),
                             ("a text too long", tensors(head.replace(b"FP32", b"BYTES"), b"\xff" * 8))):
            with self.subTest(name):
                self.assertIn("malformed", self.caught("peer", self.against, answer, infer))

    def keys(self, name, *words):
        """A certificate that signs itself, its key, and a server's context with both."""
        openssl = shutil.which("openssl")
        if openssl is None:
            self.skipTest("there is no openssl to make a certificate with")
        key, certificate = os.path.join(self.folder, name + ".key"), os.path.join(self.folder, name + ".pem")
        subprocess.run([openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=localhost", *words], check=True, capture_output=True)
        served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        served.load_cert_chain(certificate, key)
        return certificate, key, served

    def test_tls(self):
        certificate, key, served = self.keys("here", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"

        def models(client):
            return client.models()
        trusting = ssl.create_default_context(cafile=certificate)
        self.assertEqual(self.against(answer, models, served, tls=trusting), [])
        self.assertEqual(self.against(answer, models, served, ca=certificate), [])
        began = time.monotonic()
        self.assertIn("not trusted: self", self.caught("peer", self.against, answer, models, served, patience=60))
        self.assertLess(time.monotonic() - began, 20)
        for words, told in (((), "Hostname mismatch"), (("-addext", "subjectAltName=DNS:a.test"), "a name of its")):
            other, _, shown = self.keys("other", *words)
            self.assertIn(told, self.caught("peer", self.against, answer, models, shown, ca=other))
        self.caught("no input", Client, "https://here", ca="nothing.pem")
        self.caught("bad data", Client, "https://here", ca=key)
        self.caught("usage", Client, "http://here", ca=certificate)
        self.caught("usage", Client, "https://here", ca=certificate, tls=trusting)
        # Each asked as the other wants to be.
        server = Server(self.folder, self.model, "--tls-cert", certificate, "--tls-key", key)
        try:
            with SyncClient(server.url, ca=certificate) as client:
                self.assertEqual(client.predict(self.pictures[0])[0]["file"], self.pictures[0])
            plain = server.url.replace("https", "http")
            with SyncClient(plain) as client:
                self.assertIn("speaks TLS; ask https://127.0.0.1:", self.caught("peer", client.models))
        finally:
            server.kill()
        with SyncClient(self.server.url.replace("http", "https")) as client:
            self.assertIn("speaks no TLS", self.caught("peer", client.models))
        alert = b"\x15\x03\x01\x00\x02\x02\x46"
        self.assertIn("speaks TLS", self.caught("peer", self.against, alert, models))

    def test_tokens(self):
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"
        heard = []

        async def ask():
            async def serve(reader, writer):
                heard.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(answer)
                writer.close()
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            url = "http://127.0.0.1:{}/below/".format(server.sockets[0].getsockname()[1])
            async with Client(url, token="secret") as client:
                await client.models()
            server.close()
        asyncio.run(ask())
        self.assertIn(b"POST /below/v2/repository/index HTTP/1.1\r\n", heard[0])
        self.assertIn(b"\r\nAuthorization: Bearer secret\r\n", heard[0])


if __name__ == "__main__":
    unittest.main()
