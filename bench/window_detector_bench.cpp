// The detectors on one matrix, for bench/detection/speed.py, which runs scikit-learn on the same one and compares:
//   window_detector_bench MATRIX ROWS COLUMNS OUT
// MATRIX: doubles, column by column. Prints "name seconds" (the median of five runs, one thread) and writes the scores
// to OUT/name.csv.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "postproc/detect/paper/detector.h"
#include "postproc/detect/windows/knn_distance.h"
#include "postproc/numerics/gram.h"
#include "postproc/numerics/isolation_forest.h"
#include "postproc/numerics/principal_components.h"

using namespace reveal;

namespace {

constexpr Eigen::Index kComponents = 40;

Eigen::MatrixXd read(const char* path, Eigen::Index rows, Eigen::Index columns) {
  Eigen::MatrixXd matrix(rows, columns);
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(matrix.data()), static_cast<std::streamsize>(matrix.size() * sizeof(double)));
  if (!in) {
    fmt::print(stderr, "{}: too short\n", path);
    std::exit(1);
  }
  return matrix;
}

void measure(const std::string& name, const std::string& folder, const std::function<std::vector<double>()>& work) {
  std::vector<double> seconds;
  std::vector<double> scores;
  for (int run = 0; run < 5; ++run) {
    const std::clock_t begin = std::clock();
    scores = work();
    seconds.push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  std::sort(seconds.begin(), seconds.end());
  fmt::print("{} {:.6f}\n", name, seconds[2]);
  std::ofstream out(folder + "/" + name + ".csv");
  for (const double score : scores) out << fmt::format("{:.17g}\n", score);
}

Eigen::MatrixXd gram_of(const Eigen::MatrixXd& z) {
  Gram gram(static_cast<std::size_t>(z.rows()));
  for (Eigen::Index c = 0; c < z.cols(); ++c) {
    gram.add(std::span<const double>(z.col(c).data(), static_cast<std::size_t>(z.rows())));
  }
  return gram.take();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: window_detector_bench MATRIX ROWS COLUMNS OUT\n");
    return 2;
  }
  const Eigen::MatrixXd z = read(argv[1], std::atol(argv[2]), std::atol(argv[3]));
  const std::string folder = argv[4];
  for (const Detector& detector : detectors()) {
    measure(std::string(detector.name), folder, [&] { return detector.score(z, 0); });
  }
  std::vector<Eigen::Index> all(static_cast<std::size_t>(z.rows()));
  for (std::size_t w = 0; w < all.size(); ++w) all[w] = static_cast<Eigen::Index>(w);
  PrincipalComponents pc;
  measure("principal_components", folder, [&] {
    pc = principal_components(gram_of(z), all, kComponents);
    return std::vector<double>(pc.variances.begin(), pc.variances.end());
  });
  measure("neighbours", folder, [&] { return neighbour_distances(gram_of(z), 30, 0); });
  const Eigen::MatrixXd few = pc.coordinates.leftCols(20);
  measure("neighbours_20", folder, [&] { return neighbour_distances(gram_of(few), 30, 0); });
  measure("isolation_forest_20", folder, [&] { return IsolationForest::fit(few, 0).score(few); });
}
