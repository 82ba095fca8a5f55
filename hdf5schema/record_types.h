// HDF5's description of the records in layout.h and row_tables.h.
#pragma once

#include <cstddef>

namespace H5 {
class CompType;
class StrType;
}  // namespace H5

namespace reveal {

[[nodiscard]] H5::StrType text_type(std::size_t width);
[[nodiscard]] H5::CompType event_type();
/// Type of RowRecord<Row>.
template <class Row>
[[nodiscard]] H5::CompType row_type();
[[nodiscard]] H5::CompType clock_type();
[[nodiscard]] H5::CompType coverage_type();
[[nodiscard]] H5::CompType life_type();
[[nodiscard]] H5::CompType stored_type();
/// Key and value of a snapshot.
[[nodiscard]] H5::CompType pair_type(std::size_t key_width, std::size_t value_width);

}  // namespace reveal
