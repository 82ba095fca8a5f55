"""What tests of mails share: a real SMTP server on loopback (aiosmtpd), and msmtp, which hands mails over to it."""
import shutil
import socket

from harness import skip

try:
    from aiosmtpd.controller import Controller  # noqa: F401
except ImportError:
    skip("python3-aiosmtpd is not installed")
MSMTP = shutil.which("msmtp")
if MSMTP is None:
    skip("msmtp is not installed")


class Inbox:
    def __init__(self):
        self.mails = []

    async def handle_DATA(self, server, session, envelope):
        self.mails.append((envelope.rcpt_tos, envelope.content))
        return "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, rcpt_options):
        if address.startswith("unknown@"):
            return "550 no such user here"
        envelope.rcpt_tos.append(address)
        return "250 OK"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def msmtp_config(work, port):
    path = work / f"msmtprc-{port}"
    path.write_text(f"defaults\ntls off\nauth off\naccount default\nhost 127.0.0.1\nport {port}\n"
                    "from reveal@hpc.example.org\n")
    path.chmod(0o644)
    return path
