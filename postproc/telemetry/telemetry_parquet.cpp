#include "postproc/telemetry/telemetry_parquet.h"

#include <cstdint>
#include <span>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/json/json_fields.h"
#include "postproc/parquet/parquet_writer.h"
#include "postproc/telemetry/telemetry_table.h"

namespace reveal {
namespace {

enum : std::size_t { kTimeColumn, kNodeColumn, kFirstChannel };

std::vector<ParquetColumn> parquet_columns(const TelemetryTable& table) {
  std::vector<ParquetColumn> columns{{"time", ParquetType::timestamp}, {"node", ParquetType::text}};
  for (const TableColumn& column : table.columns()) columns.push_back({column.name, ParquetType::number});
  return columns;
}

std::string described_columns(const TelemetryTable& table) {
  Json columns = Json::array();
  for (const TableColumn& column : table.columns()) {
    columns.push_back({{"name", column.name}, {"unit", column.unit}, {"description", column.description}});
  }
  return json_text(columns);
}

std::vector<std::int64_t> microseconds_of(const TelemetryTable::Rows& rows) {
  constexpr std::int64_t kMicrosecond = 1'000;
  std::vector<std::int64_t> times(rows.count());
  for (std::size_t row = 0; row < times.size(); ++row) times[row] = rows.utc_ns(row) / kMicrosecond;
  return times;
}

}  // namespace

std::vector<std::string> write_parquet(const std::vector<ListedTrace>& traces, const std::vector<std::string>& metrics,
                                       const std::function<void(std::string_view)>& out) {
  TelemetryTable table(traces, metrics);
  ParquetWriter writer(parquet_columns(table), out);
  std::vector<double> missing;
  table.read([&](const TelemetryTable::Rows& rows) {
    missing.assign(rows.count(), kNaN);
    writer.add_timestamps(kTimeColumn, microseconds_of(rows));
    writer.add_repeated(kNodeColumn, rows.node, rows.count());
    for (std::size_t column = 0; column < table.columns().size(); ++column) {
      const std::span<const double> values = rows.values(column);
      writer.add_numbers(kFirstChannel + column, values.empty() ? std::span<const double>(missing) : values);
    }
    writer.end_rows(rows.count());
  });
  writer.finish({{"reveal.columns", described_columns(table)}});
  return table.left_out();
}

}  // namespace reveal
