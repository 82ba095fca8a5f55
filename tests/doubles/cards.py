"""The cards of a node that has none: GPUs and RDMA adapters as the kernel shows them in /sys, in a mount namespace of
its own, and the file from which the double of NVIDIA's library answers. Needs root.

    cards = Cards(folder, gpus=8, adapters=4)
    cards.write()
    cards.command(["reveal-run", ...])     the command with these cards in place of the machine's

Numbers are those of the kernel's documentation and of data sheets, not those of a machine. GPU i is at 0000:GG:00.0
with GG = 81 + i, adapter i (mlx5_i) at 0000:HH:00.0 with HH = a1 + i, each below a root port of its own."""
import os
import pathlib
import shlex
import subprocess

TRAFFIC = ("port_rcv_data", "port_xmit_data", "port_rcv_packets", "port_xmit_packets", "port_xmit_wait")
ERRORS = ("link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "port_rcv_remote_physical_errors",
          "port_rcv_switch_relay_errors", "port_rcv_constraint_errors", "port_xmit_discards",
          "port_xmit_constraint_errors", "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped")
TRANSPORT = ("duplicate_request", "implied_nak_seq_err", "local_ack_timeout_err", "np_cnp_sent", "np_ecn_marked_roce_packets",
             "out_of_buffer", "out_of_sequence", "packet_seq_err", "req_cqe_error", "req_cqe_flush_error",
             "req_remote_access_errors", "req_remote_invalid_request", "resp_cqe_error", "resp_cqe_flush_error",
             "resp_local_length_error", "resp_remote_access_errors", "rnr_nak_retry_err", "roce_adp_retrans",
             "roce_slow_restart", "rp_cnp_handled", "rp_cnp_ignored", "rx_atomic_requests", "rx_icrc_encapsulated",
             "rx_read_requests", "rx_write_requests")
AER = ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF")
# What a GPU that trains reports; each key is explained in nvml_double.cpp.
GPU = {"utilization": "97", "memory_utilization": "60", "memory_used": "60000000000", "memory_total": "80000000000",
       "power": "600000", "power_limit": "700000", "power_limit_default": "700000", "sm_clock": "1900", "memory_clock": "2600",
       "sm_clock_most": "1980", "memory_clock_most": "2600", "reasons": "0", "temperature": "60", "slowdown_temperature": "95",
       "name": "NVIDIA H100", "ecc": "1", "ecc_corrected": "0", "ecc_uncorrected": "0", "remap_pending": "0",
       "remap_failed": "0", "remapped_rows": "0", "mig": "0", "persistence": "1", "pcie_generation": "5",
       "pcie_width": "16", "pcie_width_most": "16", "encoder": "0", "gpm": "1", "gpm2": "80",
       "gpm3": "30", "gpm5": "40", "gpm10": "50", "pcie_replays": "0"}
FIELDS = {"field138": "0+1000", "field139": "0+1000", "field197": "0+100000000", "field198": "0+100000000",
          "field74": "0", "field75": "0", "field82": "70"}
LINKS = 18


def gpu_lines(gpus, **changes):
    """Lines for the double: healthy GPUs of a training; `changes` by key, "gpu3.reasons" as gpu3_reasons."""
    lines = {"gpus": str(gpus)} | GPU | FIELDS
    for link in range(LINKS):
        lines |= {f"link{link}": "1", f"link_errors{link}": "0"}
    for number in range(gpus):
        lines[f"{number}.minor"] = str(number)
        lines[f"{number}.address"] = "0000" + address_of_gpu(number)
    for key, value in changes.items():
        number, _, rest = key.partition("_")
        own = number.startswith("gpu") and number[3:].isdigit()
        lines[f"{number[3:]}.{rest}" if own else key] = value
    return "".join(f"{key} {value}\n" for key, value in lines.items() if value is not None)


def address_of_gpu(number):
    return f"0000:{0x81 + number:02x}:00.0"


def address_of_adapter(number):
    return f"0000:{0xa1 + number:02x}:00.0"


def replace_text(path, text):
    """In place: the collector keeps the files open."""
    with open(path, "r+" if path.exists() else "w", encoding="ascii") as file:
        file.write(text)
        file.truncate()


class Cards:
    def __init__(self, folder, gpus=8, adapters=4, node_of_gpu=lambda number: 0, node_of_adapter=lambda number: 0,
                 numa_nodes=None):
        """numa_nodes: the cpus of each node, as a list of texts; None: the machine's."""
        self.folder = pathlib.Path(folder).resolve()
        self.gpus, self.adapters, self.numa_nodes = gpus, adapters, numa_nodes
        self.node_of_gpu, self.node_of_adapter = node_of_gpu, node_of_adapter

    def path(self, *parts):
        return self.folder.joinpath(*parts)

    def put(self, name, text):
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def pci(self, number):
        """The folder of a card."""
        bus = int(number.split(":")[1], 16)
        return self.path("devices", f"pci0000:{bus - 1:02x}", f"0000:{bus - 1:02x}:01.0", number)

    def put_card(self, number, kind, node):
        card = self.pci(number)
        (self.path("addresses")).mkdir(parents=True, exist_ok=True)
        for folder in (card, card.parent):
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in {"max_link_width": "16", "current_link_width": "16", "max_link_speed": "32.0 GT/s PCIe",
                               "current_link_speed": "32.0 GT/s PCIe"}.items():
                (folder / name).write_text(text + "\n")
            self.set_link_errors(folder, 0)
        (card / "class").write_text(kind + "\n")
        (card / "numa_node").write_text(f"{node}\n")
        (card / "local_cpulist").write_text(self.numa_nodes[node] + "\n" if self.numa_nodes else "0\n")
        for name, total in {"nonfatal": "TOTAL_ERR_NONFATAL", "fatal": "TOTAL_ERR_FATAL"}.items():
            (card / f"aer_dev_{name}").write_text(f"Undefined 0\nDLP 0\n{total} 0\n")
        (self.path("addresses") / number).symlink_to(card)

    @staticmethod
    def set_link_errors(folder, count):
        text = "".join(f"{name} {count if name == 'BadTLP' else 0}\n" for name in AER)
        replace_text(folder / "aer_dev_correctable", text + f"TOTAL_ERR_COR {count}\n")

    def put_adapter(self, number):
        name, card = f"mlx5_{number}", self.pci(address_of_adapter(number))
        self.put_card(address_of_adapter(number), "0x020700", self.node_of_adapter(number))
        device = card / "infiniband" / name
        port = device / "ports/1"
        for folder in ("counters", "hw_counters"):
            (port / folder).mkdir(parents=True)
        for file, text in {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)",
                           "link_layer": "InfiniBand"}.items():
            (port / file).write_text(text + "\n")
        for counter in TRAFFIC + ERRORS:
            (port / "counters" / counter).write_text("0\n")
        for counter in TRANSPORT:
            (port / "hw_counters" / counter).write_text("0\n")
        (device / "hca_type").write_text("MT4129\n")
        (device / "fw_ver").write_text("28.39.1002\n")
        (device / "device").symlink_to(card)
        self.path("class/infiniband").mkdir(parents=True, exist_ok=True)
        (self.path("class/infiniband") / name).symlink_to(device)

    def send(self, adapter, gigabytes):
        """So many gigabytes more went both ways through an adapter; the specification counts words."""
        counters = self.path("class/infiniband", f"mlx5_{adapter}", "ports/1/counters")
        for name, step in {"port_xmit_data": 250_000_000, "port_rcv_data": 250_000_000, "port_xmit_packets": 250_000,
                           "port_rcv_packets": 250_000}.items():
            value = int((counters / name).read_text()) + int(step * gigabytes)
            replace_text(counters / name, f"{value}\n")

    def write(self):
        for number in range(self.gpus):
            self.put_card(address_of_gpu(number), "0x030200", self.node_of_gpu(number))
        for number in range(self.adapters):
            self.put_adapter(number)
        for node, cpus in enumerate(self.numa_nodes or []):
            self.put(f"node/node{node}/cpulist", cpus + "\n")
            distances = ["10" if other == node else "21" for other in range(len(self.numa_nodes))]
            self.put(f"node/node{node}/distance", " ".join(distances) + "\n")
        if self.numa_nodes:
            for name in ("online", "has_cpu", "has_memory", "possible"):
                self.put(f"node/{name}", f"0-{len(self.numa_nodes) - 1}\n")

    def command(self, words, more_mounts=()):
        """`more_mounts`: files in place of others, (own, of the machine)."""
        quoted = shlex.quote
        mounts = [(self.path("addresses"), "/sys/bus/pci/devices"), *more_mounts]
        lines = ["set -e", "mount --make-rprivate /", f"mkdir -p {quoted(str(self.path('machine')))}",
                 f"mount --rbind /sys {quoted(str(self.path('machine')))}"]
        if self.adapters:
            self.path("class").mkdir(exist_ok=True)
            for name in os.listdir("/sys/class"):
                if not (self.path("class") / name).is_symlink():
                    (self.path("class") / name).symlink_to(self.path("machine/class") / name)
            mounts.append((self.path("class"), "/sys/class"))
        if self.numa_nodes:
            mounts.append((self.path("node"), "/sys/devices/system/node"))
        lines += [f"mount --bind {quoted(str(own))} {quoted(str(other))}" for own, other in mounts]
        return ["unshare", "-m", "sh", "-c", "\n".join(lines) + '\nexec "$@"', "sh", *map(str, words)]


def unavailable():
    """Why this machine cannot show other cards; "" where it can."""
    if os.geteuid() != 0:
        return "needs root, for a mount namespace"
    done = subprocess.run(["unshare", "-m", "sh", "-c", "mount --make-rprivate / && mount --bind /sys/class /sys/class"],
                          capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else "needs a mount namespace: " + done.stderr.strip()
