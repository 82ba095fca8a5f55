// The paper's third detector.
#include "postproc/detect/paper/detector.h"
#include "postproc/numerics/isolation_forest.h"

namespace reveal {

namespace {

const RegisteredDetector kIsolationForest{
    2,
    {"isolation_forest", Method::paper_forest, "sklearn.ensemble.IsolationForest(n_estimators=100)",
     [](const Eigen::MatrixXd& z, std::uint64_t seed) { return IsolationForest::fit(z, seed).score(z); }}};

}  // namespace

}  // namespace reveal
