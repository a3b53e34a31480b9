# SPDX-License-Identifier: BSD-2-Clause
"""
fake_server - a server of a Fathom system that says what a test wants: Debian's grpcio, bytes in and out.

    with FakeServer({"/mgmt.MgmtSvc/SystemQuery": [answer, answer ...]}) as server: ... server.port ... server.calls

An answer is a message of protobuf, bytes, Failure(code, text, info), Slow(seconds, answer), or a function of the request's
bytes that returns one of these. The last of a list is repeated.
"""

import concurrent.futures
import importlib
import os
import socket
import subprocess
import sys
import tempfile
import threading

import grpc

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4))
_modules = tempfile.TemporaryDirectory(prefix="fathom-protocols-")


def protocols():
    """The project's definitions, compiled: mgmt, ctl, shared, fathom, rpc."""
    names = ("mgmt", "ctl", "shared", "srv", "security", "fathom", "rpc", "store")
    if _modules.name not in sys.path:
        subprocess.run(["protoc", f"--proto_path={TOP}/src", f"--python_out={_modules.name}"] + [f"rpc/proto/{name}.proto" for name in names],
                       check=True)
        sys.path.insert(0, _modules.name)
    return {name: importlib.import_module(f"rpc.proto.{name}_pb2") for name in names}


class Failure:
    def __init__(self, code, text, info=None):
        self.code, self.text, self.info = code, text, info


class Slow:
    def __init__(self, seconds, answer):
        self.seconds, self.answer = seconds, answer


def fault(code, domain, text, resolution):
    """A fault, encoded as by a server."""
    message = f'{domain}: code = {code} description = "{text}"'
    return Failure(grpc.StatusCode.INTERNAL, message, ("proto.fault.Fault", domain, {
        "Domain": domain, "Code": str(code), "Description": text, "Reason": "", "Resolution": resolution}))


def not_replica(*replicas):
    return Failure(grpc.StatusCode.INTERNAL, "not a replica", ("proto.system.ErrNotReplica", "system", {
        "Replicas": "[" + ",".join(f'"{replica}"' for replica in replicas) + "]"}))


def not_leader(leader, *replicas):
    return Failure(grpc.StatusCode.INTERNAL, "not the leader", ("proto.system.ErrNotLeader", "system", {
        "LeaderHint": leader, "Replicas": "[" + ",".join(f'"{replica}"' for replica in replicas) + "]"}))


class PoweredOff:
    """An address that does not answer, not even from the kernel: its listen queue is full."""

    def __enter__(self):
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.callers = []
        while True:
            caller = socket.socket()
            self.callers.append(caller)
            caller.settimeout(0.2)
            try:
                caller.connect(("127.0.0.1", self.port))
            except socket.timeout:
                return self

    def __exit__(self, *_):
        for one in [self.listener, *self.callers]:
            one.close()


class FakeServer:
    def __init__(self, answers, host="127.0.0.1", certificates=None, workers=8):
        self.answers = {path: list(said) if isinstance(said, list) else [said] for path, said in answers.items()}
        self.calls = []     # path, request, headers
        self.running = self.running_max = 0
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.pool = concurrent.futures.ThreadPoolExecutor(max_workers=workers)
        self.server = grpc.server(self.pool, handlers=(self,), options=(("grpc.so_reuseport", 0),))
        if certificates:
            read = [open(os.path.join(certificates, name), "rb").read() for name in ("server.key", "server.crt", "ca.crt")]
            credentials = grpc.ssl_server_credentials([(read[0], read[1])], root_certificates=read[2], require_client_auth=True)
            self.port = self.server.add_secure_port(f"{host}:0", credentials)
        else:
            self.port = self.server.add_insecure_port(f"{host}:0")
        self.address = f"{host}:{self.port}"

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.server.stop(None).wait()
        self.pool.shutdown(wait=False)

    # grpc.GenericRpcHandler
    def service(self, details):
        def serve(request, context):
            return self.answer(details, request, context)
        return grpc.unary_unary_rpc_method_handler(serve)   # bytes in, bytes out

    def answer(self, details, request, context):
        with self.lock:
            self.calls.append((details.method, request, dict(details.invocation_metadata)))
            said = self.answers.get(details.method)
            answer = said[0] if said else Failure(grpc.StatusCode.UNIMPLEMENTED, "no such method")
            if said and len(said) > 1:
                said.pop(0)
            self.running += 1
            self.running_max = max(self.running_max, self.running)
        try:
            return self.finish(answer, request, context)
        finally:
            with self.lock:
                self.running -= 1

    def finish(self, answer, request, context):
        if callable(answer):
            answer = answer(request)
        while isinstance(answer, Slow):
            self.ended.wait(answer.seconds)
            answer = answer.answer
        if isinstance(answer, Failure):
            return self.fail(answer, context)
        return answer if isinstance(answer, bytes) else answer.SerializeToString()

    def fail(self, failure, context):
        if isinstance(failure.info, bytes):     # a recorded google.rpc.Status
            context.set_trailing_metadata((("grpc-status-details-bin", failure.info),))
        elif failure.info:
            rpc = protocols()["rpc"]
            reason, domain, metadata = failure.info
            info = rpc.ErrorInfo(reason=reason, domain=domain, metadata=metadata)
            status = rpc.Status(code=failure.code.value[0], message=failure.text, details=[
                rpc.Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=info.SerializeToString())])
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(failure.code, failure.text)

    def requests(self, path, message):
        """The requests received for `path`, decoded as `message`."""
        return [message.FromString(request) for method, request, _ in self.calls if method == path]
