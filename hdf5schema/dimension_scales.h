// HDF5 dimension scales (https://docs.hdfgroup.org/hdf5/v1_10/_h5_d_s__u_g.html) written according to their
// specification. Each list of references is written once, whole: the high-level library rewrites it with every
// attachment.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace H5 {
class DataSet;
}

namespace reveal {

class DimensionScales {
 public:
  struct User {
    const H5::DataSet& dataset;
    int dimension;
  };
  /// Turns a dataset into a scale. `users`: all of them, if they are known and exist.
  static void make(const H5::DataSet& scale, const std::string& name, const std::vector<User>& users = {});

  /// Reserves space for the data that attach() writes when the scales exist.
  static void reserve(const H5::DataSet& dataset, std::size_t dimensions);

  /// The scales of every dimension of a dataset, in order. Names are absolute paths in the file.
  void attach(const H5::DataSet& dataset, const std::vector<std::vector<std::string>>& scales_per_dimension);

  /// Writes into every scale that lacks it the list of datasets that use it. Call it once, after the last attach().
  void write_references(std::int64_t file_id) const;

 private:
  struct Use {
    std::uint64_t dataset = 0;
    int dimension = 0;
  };
  std::map<std::string, std::vector<Use>> uses_;
};

}  // namespace reveal
