// Rows and scores that scikit-learn computed (tests/data/golden/make_golden.py).
#pragma once

#include <Eigen/Core>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace reveal::tests {

inline std::vector<std::vector<double>> read_csv(const std::string& file, bool header = false) {
  std::vector<std::vector<double>> rows;
  std::ifstream in(std::string(TEST_DATA "/golden/") + file);
  std::string line;
  if (header) std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string field;
    rows.emplace_back();
    while (std::getline(fields, field, ',')) {
      rows.back().push_back(field == "tall" ? 0 : field == "wide" ? 1 : std::stod(field));
    }
  }
  return rows;
}

inline Eigen::MatrixXd golden_rows() {
  const auto rows = read_csv("if_X.csv");
  Eigen::MatrixXd x(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(rows.front().size()));
  for (Eigen::Index r = 0; r < x.rows(); ++r) {
    for (Eigen::Index c = 0; c < x.cols(); ++c)
      x(r, c) = rows[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)];
  }
  return x;
}

}  // namespace reveal::tests
