// The configuration of a node and of the job on it, as sorted facts: taken at the start and at the end of a trace.
#pragma once

#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/kernel_text/kernel_tree.h"
#include "core/sampler/host.h"
#include "hdf5schema/trace.h"

namespace reveal {

[[nodiscard]] Snapshot take_snapshot(KernelTree& fs, const Host& host, const Job* job);

/// Facts that can be read only while the job lives: its cpus, control groups, limits and ("env.") environment. The last
/// is missing while none of its processes has begun its program.
[[nodiscard]] Snapshot job_snapshot(KernelTree& fs, const Host& host, const Job& job);

/// The machine as hwloc sees it; "" if that fails or takes longer than a few seconds.
[[nodiscard]] std::string topology_xml(KernelTree& fs);

/// Queues, packet steering (RPS, XPS), speed and NUMA node of each interface the collector sees; empty values are
/// unknown.
[[nodiscard]] Snapshot network_links(KernelTree& fs);
/// "address.eth0": the addresses of each interface by which other nodes may reach the collector's network.
[[nodiscard]] Snapshot interface_addresses(KernelTree& fs);
/// NUMA node, type and firmware of each RDMA device; state, rate, link layer and network interface of each of its
/// ports.
[[nodiscard]] Snapshot rdma_ports(KernelTree& fs);
/// Cpus, distances and huge pages of each NUMA node.
[[nodiscard]] Snapshot numa_nodes(KernelTree& fs);
/// Links of network, NVMe, graphics and accelerator cards: "pci." has their capabilities and width, "pci_state." speed
/// and errors.
[[nodiscard]] Snapshot pci_links(KernelTree& fs);
/// "gpu_driver.": whether NVIDIA's kernel module is the open one, and the modules that let a fabric reach the memory of
/// GPUs.
[[nodiscard]] Snapshot gpu_driver(KernelTree& fs);
/// Whether the kernel takes its wall clock for right, and by how much it may be wrong.
[[nodiscard]] Snapshot clock_state(KernelTree& fs);
/// "since_start.": the node's age, and memory errors in it.
[[nodiscard]] Snapshot counted_since_start(KernelTree& fs);
/// "cpu_threads.N": the cpus of each core that has several; "0,64 1,65".
[[nodiscard]] Snapshot core_threads(KernelTree& fs, const std::vector<int>& cpus);

/// The value of the option "mitigations=" of the kernel, the last one counts; "not set" without one.
[[nodiscard]] std::string mitigations_option(std::string_view command_line);

/// The environment variables with values that may be kept, from "NAME=value\0NAME=value\0".
[[nodiscard]] Snapshot allowed_environment(std::string_view environ);

}  // namespace reveal
