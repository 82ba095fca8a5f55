// The device of an interrupt and the cpus that may serve it, from trees as kernels show them.
#include "core/snapshot/interrupts.h"

#include <gtest/gtest.h>

#include "test_host.h"

namespace reveal::tests::interrupts_test {
namespace {

constexpr const char* kPci = "/sys/bus/pci/devices/";

TEST(Interrupts, AreFollowedToTheirDeviceAndItsNumaNode) {
  TestHost host;
  host.write("/proc/interrupts",
             "           CPU0       CPU1\n"
             "  36:          0    1513566 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n"
             "  95:       5000          0 PCI-MSIX-0000:81:00.0   3-edge      mlx5_comp3@pci:0000:81:00.0\n"
             "  24:          1          0  IO-APIC   5-edge      ACPI:Ged\n"
             "LOC:    8022399    8185040   Local timer interrupts\n");
  host.write("/proc/irq/95/smp_affinity_list", "0-1\n");
  host.write("/proc/irq/95/effective_affinity_list", "0\n");
  host.write(std::string(kPci) + "0000:81:00.0/msi_irqs/95", "msix\n");
  host.write(std::string(kPci) + "0000:81:00.0/numa_node", "1\n");
  host.write(std::string(kPci) + "0000:81:00.0/net/ib0/mtu", "2044\n");
  host.write(std::string(kPci) + "0000:81:00.0/infiniband/mlx5_0/node_type", "1: CA\n");
  // The disk hangs below the virtio device, the interrupt above it.
  host.write(std::string(kPci) + "0000:00:02.0/msi_irqs/36", "msix\n");
  host.write(std::string(kPci) + "0000:00:02.0/numa_node", "-1\n");
  host.write(std::string(kPci) + "0000:00:02.0/virtio1/block/vda/size", "1\n");
  KernelTree fs(host.root());
  const std::vector<InterruptFact> facts = interrupt_facts(fs, 100, 128);
  ASSERT_EQ(facts.size(), 2U);
  EXPECT_EQ(facts[0].number, 36);
  EXPECT_EQ(facts[0].device, "0000:00:02.0 block vda");
  EXPECT_EQ(facts[0].numa_node, "");
  EXPECT_EQ(facts[1].number, 95);
  EXPECT_EQ(facts[1].count, 5000);
  EXPECT_EQ(facts[1].name, "mlx5_comp3@pci:0000:81:00.0");
  EXPECT_EQ(facts[1].affinity, "0-1");
  EXPECT_EQ(facts[1].effective, "0");
  EXPECT_EQ(facts[1].device, "0000:81:00.0 net ib0, infiniband mlx5_0");
  EXPECT_EQ(facts[1].numa_node, "1");
  EXPECT_EQ(interrupt_facts(fs, 100, 1).front().number, 36) << "the busiest are kept";
}

TEST(Interrupts, ThatTheKernelPlacedAreMarked) {
  TestHost host;
  host.write("/proc/interrupts", "     CPU0\n 1: 500 nvme0q1\n 2: 500 nvme1q1\n 3: 500 eth0\n");
  host.write("/sys/kernel/debug/irq/irqs/1", "handler:  handle_edge_irq\nIRQD_AFFINITY_MANAGED\n");
  host.write("/sys/kernel/debug/irq/irqs/3", "handler:  handle_edge_irq\n");
  host.write("/proc/irq/2/smp_affinity", "1\n");
  std::filesystem::permissions(host.root() / "proc/irq/2/smp_affinity", std::filesystem::perms::owner_read);
  KernelTree fs(host.root());
  const std::vector<InterruptFact> facts = interrupt_facts(fs, 100, 128);
  ASSERT_EQ(facts.size(), 3U);
  EXPECT_EQ(facts[0].managed, "yes");
  EXPECT_EQ(facts[1].managed, "yes");
  EXPECT_EQ(facts[2].managed, "no");
}

}  // namespace
}  // namespace reveal::tests::interrupts_test
