#!/usr/bin/python3
"""Processor time of calls into NVIDIA's management library, idle and beside a busy GPU: which of them are dear?

  gpu_calls.py [--rounds 25]      needs one NVIDIA GPU, nvidia-ml-py, and PyTorch for the load

Each call is made every 60 ms, as answers that are asked for at once come from a cache. Prints the median of the time on
the clock, the mean of the processor time of the thread, and the last answer."""
import argparse
import ctypes
import statistics
import subprocess
import sys
import time

PAUSE = 0.06  # seconds
LOAD = """
import torch
a = torch.randn(4096, 4096, device="cuda")
while True:
    for _ in range(20):
        a = (a @ a).clamp(-1, 1)
    torch.cuda.synchronize()
"""
ALL_LINKS = 0xFFFFFFFF
# Numbers of nvml.h.
FIELDS = {"energy": (83,), "PCI Express sent": (197,), "PCI Express sent and received": (197, 198),
          "NVLink sent": ((138, ALL_LINKS),), "time at the power limit": (74,), "time at the limit of temperature": (75,),
          "temperature of the memory, retired pages": (82, 31, 29, 30)}


def calls(nvml, device):
    sample = nvml.nvmlGpmSampleAlloc()
    second_ago = lambda: int((time.time() - 1) * 1e6)
    named = {
        "nvmlDeviceGetUtilizationRates": lambda: nvml.nvmlDeviceGetUtilizationRates(device).gpu,
        "nvmlDeviceGetMemoryInfo": lambda: nvml.nvmlDeviceGetMemoryInfo(device).used,
        "nvmlDeviceGetPowerUsage": lambda: nvml.nvmlDeviceGetPowerUsage(device),
        "nvmlDeviceGetClockInfo": lambda: nvml.nvmlDeviceGetClockInfo(device, 1),
        "nvmlDeviceGetCurrentClocksEventReasons": lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(device),
        "nvmlGpmSampleGet": lambda: nvml.nvmlGpmSampleGet(device, sample) and None,
        "nvmlDeviceGetTotalEnergyConsumption": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(device),
        "nvmlDeviceGetSamples, power": lambda: len(nvml.nvmlDeviceGetSamples(device, 0, second_ago())[1]),
        "nvmlDeviceGetSamples, utilization": lambda: len(nvml.nvmlDeviceGetSamples(device, 1, second_ago())[1]),
        "nvmlDeviceGetProcessUtilization": lambda: len(nvml.nvmlDeviceGetProcessUtilization(device, 0)),
        "nvmlDeviceGetComputeRunningProcesses": lambda: len(nvml.nvmlDeviceGetComputeRunningProcesses(device)),
        "nvmlDeviceGetPcieThroughput": lambda: nvml.nvmlDeviceGetPcieThroughput(device, 0),
        "nvmlDeviceGetPcieReplayCounter": lambda: nvml.nvmlDeviceGetPcieReplayCounter(device),
        "nvmlDeviceGetCurrPcieLinkWidth": lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(device),
        "nvmlDeviceGetTemperature": lambda: nvml.nvmlDeviceGetTemperature(device, 0),
        "nvmlDeviceGetTotalEccErrors": lambda: nvml.nvmlDeviceGetTotalEccErrors(device, 0, 0)}
    for name, fields in FIELDS.items():
        named[f"nvmlDeviceGetFieldValues, {name}"] = lambda fields=fields: [
            (value.nvmlReturn, value.valueType) for value in nvml.nvmlDeviceGetFieldValues(device, list(fields))]
    return named


def measure(nvml, device, rounds):
    for name, call in calls(nvml, device).items():
        clock, processor, answer = [], 0, None
        for _ in range(rounds):
            time.sleep(PAUSE)
            begin, used = time.perf_counter_ns(), time.thread_time_ns()
            try:
                answer = call()
            except (nvml.NVMLError, ctypes.ArgumentError) as error:
                answer = error
            processor += time.thread_time_ns() - used
            clock.append(time.perf_counter_ns() - begin)
        print(f"{name:68} {statistics.median(clock) / 1e3:9.1f} us {processor / rounds / 1e3:9.1f} us  {str(answer)[:40]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    try:
        import pynvml
        pynvml.nvmlInit()
    except (ImportError, OSError) as error:
        sys.exit(f"gpu_calls: {error}")
    except pynvml.NVMLError as error:
        sys.exit(f"gpu_calls: {error}")
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    print("idle")
    measure(pynvml, device, options.rounds)
    load = subprocess.Popen([sys.executable, "-c", LOAD])
    try:
        time.sleep(10)  # PyTorch starts
        print("busy" if load.poll() is None else "without a load: it did not start")
        measure(pynvml, device, options.rounds)
    finally:
        load.kill()
        load.wait()


if __name__ == "__main__":
    main()
