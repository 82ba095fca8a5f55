#include "core/stack/stack_functions.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "core/job/process_slots.h"
#include "core/stack/call_requests.h"
#include "core/stack/first_instruction.h"
#include "core/stack/library_functions.h"
#include "core/stack/process_maps.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::stack_functions_test {
namespace {

TEST(StackFunctions, HaveNamesAndSymbolsOfTheirOwn) {
  std::set<std::string_view> names;
  std::set<std::string_view> symbols;
  for (const StackFunction& function : stack_functions()) {
    EXPECT_TRUE(names.insert(function.name).second) << function.name;
    for (const std::string_view symbol : function.symbols) {
      EXPECT_TRUE(symbol.empty() || symbols.insert(symbol).second) << symbol;
    }
  }
}

// It may do so after they were attached, and a breakpoint in the new code ends the process.
TEST(StackFunctions, HaveNoneThatUcxReplaces) {
  constexpr std::string_view kReplaced[] = {
      "cuMemAlloc",      "cuMemAlloc_v2",           "cuMemAllocManaged", "cuMemAllocPitch", "cuMemAllocPitch_v2",
      "cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemMap",          "cuMemUnmap",      "cuMemFree",
      "cuMemFree_v2",    "cuMemFreeHost",           "cuMemFreeHost_v2",  "cuMemFreeAsync"};
  for (const StackFunction& function : stack_functions()) {
    for (const std::string_view symbol : function.symbols) {
      EXPECT_EQ(std::count(std::begin(kReplaced), std::end(kReplaced), symbol), 0) << symbol;
    }
  }
}

// Where the number of elements would be, their options have the size of one, and behind it a tag that counts the calls.
TEST(StackFunctions, OfGlooWithoutANumberOfElementsHaveNoSize) {
  std::size_t found = 0;
  for (const StackFunction& function : stack_functions()) {
    if (function.name != "gloo.allgather" && function.name != "gloo.alltoall") continue;
    ++found;
    EXPECT_FALSE(has_size(function)) << function.name;
    EXPECT_TRUE(exchanges(function)) << "the bytes of a step are then not known: " << function.name;
  }
  EXPECT_EQ(found, 2U);
}

// The call server refuses more, and a job under Slurm would have no calls at all.
TEST(StackFunctions, FitIntoTheCallServerForAllProcessesThatAreMeasured) {
  EXPECT_LE(ProcessSlots::kSlots * stack_functions().size(), kMostCallPlaces);
}

// The return address that the kernel puts on the stack ends a program that an exception passes through.
TEST(StackFunctions, OfCppAreProbedWhereTheyReturnOnlyIfNoExceptionLeavesThem) {
  for (const StackFunction& function : stack_functions()) {
    for (const std::string_view symbol : function.symbols) {
      const Ending ending = function.name == "c10d.work" ? Ending::catches_all : Ending::may_throw;
      EXPECT_TRUE(!symbol.starts_with("_Z") || function.ending == ending) << symbol;
    }
  }
}

TEST(StackFunctions, BelongToLibrariesByTheBeginOfTheirNames) {
  EXPECT_TRUE(is_stack_library("libnccl.so.2"));
  EXPECT_TRUE(is_stack_library("libcudart.so.13"));
  EXPECT_TRUE(is_stack_library("libtorch_cpu.so"));
  EXPECT_TRUE(is_stack_library("python3.11"));
  EXPECT_TRUE(is_stack_library("libpython3.12.so.1.0"));
  EXPECT_TRUE(is_stack_library("libmpi.so.40.30.4"));
  EXPECT_TRUE(is_stack_library("libmpi_gnu_91.so.12.0.0"));
  EXPECT_TRUE(is_stack_library("libmpi_cray.so.12"));
  EXPECT_FALSE(is_stack_library("libmpifort.so.12"));
  EXPECT_FALSE(is_stack_library("python2.7"));
  EXPECT_TRUE(is_stack_library("libcudart-80664282.so.10.2")) << "of a wheel";
  EXPECT_TRUE(is_stack_library("libcudart-d0da41ae.so.11.0"));
  EXPECT_TRUE(is_stack_library("libnccl-0123456789abcdef.so.2"));
  EXPECT_FALSE(is_stack_library("libcudart-d0da41a.so.11.0")) << "too short for a hash";
  EXPECT_FALSE(is_stack_library("libcudart-d0da41ag.so.11.0"));
  EXPECT_FALSE(is_stack_library("libcudart-d0da41ae"));
  EXPECT_FALSE(is_stack_library("libcudart_d0da41ae.so"));
  EXPECT_FALSE(is_stack_library("libnccl-net.so"));
  EXPECT_FALSE(is_stack_library("my-libnccl.so.2"));
  EXPECT_FALSE(is_stack_library(""));
}

std::vector<std::string> names_among(const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const StackFunction& function : stack_functions()) {
    if (is_among(function, names)) found.emplace_back(function.name);
  }
  return found;
}

TEST(StackFunctions, AreLeftOutByTheirNamesOrTheBeginOfThese) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(names_among({}), Words{});
  EXPECT_EQ(names_among({"c10d.wait", "cudaFree"}), (Words{"cudaFree", "c10d.wait"}));
  EXPECT_EQ(names_among({"c10d.*"}), (Words{"c10d.work", "c10d.wait"}));
  EXPECT_EQ(names_among({"*"}).size(), stack_functions().size());
  EXPECT_EQ(names_among({"c10d"}), Words{});
  EXPECT_NO_THROW(check_function_names(Words{"torch.*", "ncclSend"}));
  try {
    check_function_names(Words{"ncclSend", "c10d.wiat"});
    FAIL() << "no function has this name";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "unknown function \"c10d.wiat\"; did you mean \"c10d.wait\"?");
  }
  EXPECT_THROW(check_function_names(Words{"torch.x*"}), Error);
}

// They may throw, and they are called far more often than a step is made.
TEST(StackFunctions, ThatAreOperatorsAreCountedAtTheirEntryAndRestFirst) {
  std::size_t operators = 0;
  for (const StackFunction& function : stack_functions()) {
    if (!function.name.starts_with("torch.") || function.part == PartOfStep::clock) continue;
    ++operators;
    EXPECT_EQ(function.ending, Ending::may_throw) << function.name;
    EXPECT_EQ(function.rests, Rests::first) << function.name;
    EXPECT_TRUE(function.symbols[0].starts_with("_ZN2at4_ops")) << function.name;
  }
  EXPECT_GT(operators, 0U);
}

TEST(StackFunctions, AreFoundInTheInstalledPyTorch) {
  const Descriptor file(::open("/usr/lib/x86_64-linux-gnu/libtorch_cpu.so", O_RDONLY | O_CLOEXEC));
  if (!file) GTEST_SKIP() << "Debian's PyTorch (libtorch-dev) is not installed";
  KnownLibraries libraries;
  const LibraryFunctions& known = libraries.look_into(file.get(), "libtorch_cpu.so");
  EXPECT_EQ(known.problem, "");
  for (std::size_t i = 0; i < stack_functions().size(); ++i) {
    const std::string_view name = stack_functions()[i].name;
    if (!name.starts_with("torch.")) continue;
    EXPECT_TRUE(std::any_of(known.places.begin(), known.places.end(), [i](const LibraryFunctions::Place& place) {
      return place.function == i;
    })) << name;
  }
}

std::optional<std::uint64_t> probed(std::string_view code) {
  return cheap_probe_at(std::as_bytes(std::span(code)));
}

TEST(FirstInstruction, IsOneThatTheKernelEmulates) {
  using namespace std::literals;
  EXPECT_EQ(probed("\x55\x48\x89\xe5"sv), 0U);                            // push %rbp
  EXPECT_EQ(probed("\x41\x57"sv), 0U);                                    // push %r15
  EXPECT_EQ(probed("\xf3\x0f\x1e\xfa\x55"sv), 4U);                        // endbr64; push %rbp
  EXPECT_EQ(probed("\x0f\x1f\x44\x00\x00"sv), 0U);                        // nop
  EXPECT_EQ(probed("\xe9\x2b\xdc\xff\xff"sv), 0U);                        // jmp
  EXPECT_EQ(probed("\xe8\x2b\xdc\xff\xff"sv), std::nullopt);              // call
  EXPECT_EQ(probed("\x48\xb8\xef\xbe\xfe\xca\x19\x59"sv), std::nullopt);  // movabs
  EXPECT_EQ(probed("\x48\x83\xec\x08"sv), std::nullopt);                  // sub $8,%rsp
  EXPECT_EQ(probed("\xf3\x0f\x1e\xfa\x48\x89"sv), std::nullopt);          // endbr64; mov
  EXPECT_EQ(probed("\x41\x89"sv), std::nullopt);
  EXPECT_EQ(probed("\x41"sv), std::nullopt);
  EXPECT_EQ(probed("\xe9\x2b"sv), std::nullopt);
  EXPECT_EQ(probed("\xf3\x0f\x1e\xfa"sv), std::nullopt);
  EXPECT_EQ(probed(""sv), std::nullopt);
}

TEST(FirstInstruction, MayBeAPushBehindOneThatLeavesTheArgumentsAlone) {
  using namespace std::literals;
  // ncclCommInitRankConfig of NCCL 2.28: a constant in rax, push %rbp
  EXPECT_EQ(probed("\x48\xb8\xef\xbe\xfe\xca\x19\x59\x00\x00\x55\x48\x89\xe5"sv), 10U);
  // MPI_Waitall of OpenMPI 4.1: a word of the library's data in rax, push %r12
  EXPECT_EQ(probed("\x48\x8b\x05\x61\x4e\x08\x00\x41\x54\x49\x89\xd4"sv), 7U);
  EXPECT_EQ(probed("\x48\x8d\x05\x61\x4e\x08\x00\x55"sv), 7U);                               // lea
  EXPECT_EQ(probed("\xf3\x0f\x1e\xfa\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08\x53"sv), 14U);  // behind endbr64
  // MPI_Finalize of OpenMPI 4.1: no push behind it
  EXPECT_EQ(probed("\x48\x8b\x05\x81\xfd\x09\x00\x80\x38\x00\x74\x11"sv), std::nullopt);
  EXPECT_EQ(probed("\x48\x8b\x05\x61\x4e\x08\x00\x90"sv), std::nullopt) << "a jump may lead to a nop";
  EXPECT_EQ(probed("\x48\x8b\x3d\x61\x4e\x08\x00\x55"sv), std::nullopt) << "rdi is the first argument";
  EXPECT_EQ(probed("\x48\x8b\x05\x61\x4e\x08\x00"sv), std::nullopt) << "cut off";
}

TEST(ProcessMaps, AreReadLineByLine) {
  const auto mapping =
      parse_mapping("7f0000001000-7f0000003000 r-xp 00028000 fd:01 1234     /usr/lib/libnccl.so.2 (deleted)");
  ASSERT_TRUE(mapping);
  EXPECT_EQ(mapping->begin, 0x7f0000001000U);
  EXPECT_EQ(mapping->end, 0x7f0000003000U);
  EXPECT_EQ(mapping->offset, 0x28000U);
  EXPECT_EQ(mapping->inode, 1234U);
  EXPECT_TRUE(mapping->executable);
  EXPECT_EQ(file_name_of(*mapping), "libnccl.so.2");
}

TEST(ProcessMaps, ThatAreNoMapsHaveNoMapping) {
  for (const char* line : {"", "7f00", "7f00-7f01", "7f01-7f00 r-xp 0 0:0 1 /x", "7f00-7f01 r-xp zz 0:0 1 /x",
                           "7f00-7f01 r-x 0 0:0 1 /x", "7f00-7f01 r-xp 0 00 1 /x", "7f00-7f01 r-xp 0 0:0 -1 /x"}) {
    EXPECT_FALSE(parse_mapping(line)) << line;
  }
}

TEST(ProcessMaps, NameTheCodeOfKnownLibrariesOnly) {
  const std::vector<Mapping> found = stack_mappings(
      "1000-2000 r--p 0 08:01 5 /lib/libnccl.so.2\n"
      "2000-3000 r-xp 1000 08:01 5 /lib/libnccl.so.2\n"
      "3000-4000 r-xp 0 08:01 6 /lib/libc.so.6\n"
      "4000-5000 r-xp 0 00:00 0 [vdso]\n"
      "5000-6000 r-xp 0 00:00 0 libnccl.so.2\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].offset, 0x1000U);
}

}  // namespace
}  // namespace reveal::tests::stack_functions_test
