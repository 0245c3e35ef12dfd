#!/usr/bin/env python3
"""A server of tools/bench/serve/peers: FastAPI and uvicorn before ONNX Runtime or OpenCV's DNN.

Usage: peer_server.py NET.onnx onnxruntime|opencv --port N --threads N [--workers N] --shape C,H,W

POST /infer takes one row as bytes, float32 in the machine's order, and gives the output as bytes. The handler runs the
net in the event loop itself: with one net and its threads on all cores a pool of threads only adds switches.
"""

import argparse
import os

import fastapi
import numpy as np
import uvicorn


def runner(net, engine, threads):
    if engine == "opencv":
        import cv2

        cv2.setNumThreads(threads)
        loaded = cv2.dnn.readNetFromONNX(net)

        def run(rows):
            loaded.setInput(rows)
            return loaded.forward()

        return run
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(net, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda rows: session.run(None, {name: rows})[0]


def application():
    """Called by each worker of uvicorn; the settings come through the environment."""
    net, engine, threads, shape = os.environ["MOKA_PEER"].split("|")
    sides = tuple(int(side) for side in shape.split(","))
    run = runner(net, engine, int(threads))
    run(np.zeros((1, *sides), np.float32))
    app = fastapi.FastAPI()

    @app.get("/ready")
    async def ready():
        return {"ready": True}

    @app.post("/infer")
    async def infer(request: fastapi.Request):
        rows = np.frombuffer(await request.body(), np.float32).reshape(1, *sides)
        return fastapi.Response(run(rows).tobytes(), media_type="application/octet-stream")

    return app


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("net")
    parser.add_argument("engine", choices=["onnxruntime", "opencv"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--shape", required=True)
    options = parser.parse_args()
    os.environ["MOKA_PEER"] = "|".join([options.net, options.engine, str(options.threads), options.shape])
    uvicorn.run("peer_server:application", factory=True, host="127.0.0.1", port=options.port, workers=options.workers,
                log_level="warning", access_log=False, app_dir=os.path.dirname(os.path.abspath(__file__)))


if __name__ == "__main__":
    main()
