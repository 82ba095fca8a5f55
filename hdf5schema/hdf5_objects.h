// Datasets, groups and attributes as a trace makes them: small. Under an Hdf5Access; H5::Exception where HDF5 refuses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace H5 {
class DataSet;
class DataType;
class DSetAccPropList;
class DSetCreatPropList;
class Group;
class H5File;
class H5Object;
}  // namespace H5

namespace reveal {

using Hdf5Size = unsigned long long;  // hsize_t

void set_attribute(const H5::H5Object& object, const char* name, std::string_view text);
void set_attribute(const H5::H5Object& object, const char* name, std::int64_t value);
void set_attribute(const H5::H5Object& object, const char* name, double value);

/// Every chunked dataset: shuffle, deflate, checksum.
[[nodiscard]] H5::DSetCreatPropList creation(std::span<const Hdf5Size> chunk);
/// No chunk cache: a chunk is written once and never looked at again, and 60 caches would hold 60 MB.
[[nodiscard]] H5::DSetAccPropList access_without_cache();

/// A table of one dimension that grows.
[[nodiscard]] H5::DataSet create_table(const H5::Group& where, const std::string& name, const H5::DataType& type,
                                       Hdf5Size chunk);
/// One that grows by a record at a time: without filters, for which the library would read and write its whole chunk.
[[nodiscard]] H5::DataSet create_raw_table(const H5::Group& where, const std::string& name, const H5::DataType& type,
                                           Hdf5Size chunk);
/// One that is as long as it will ever be, without the index of one that grows.
[[nodiscard]] H5::DataSet create_final_table(const H5::Group& where, const std::string& name, const H5::DataType& type,
                                             Hdf5Size length);
[[nodiscard]] H5::Group create_group(const H5::Group& where, const std::string& name);
/// The group of "memory/numa/meminfo", made where it is missing.
[[nodiscard]] H5::Group group_of(const H5::H5File& file, std::string_view path);

/// Records behind the end of a table.
void append(H5::DataSet& table, const void* records, Hdf5Size count, const H5::DataType& type);
/// Overwrites from `first` on and grows as needed.
void put(H5::DataSet& table, const void* records, Hdf5Size first, Hdf5Size count, const H5::DataType& type);

}  // namespace reveal
