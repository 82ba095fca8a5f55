#include "core/sampler/number_files.h"

#include <utility>

#include "core/kernel_text/kernel_words.h"

namespace reveal {
namespace {

class NumberFilesProbe final : public Probe {
 public:
  NumberFilesProbe(Family& family, const FamilyTable& table, std::vector<NumberFile> files)
      : family_(family), files_(std::move(files)) {
    for (const NumberFile& each : files_) family_.add(table.metrics[each.metric].name, each.instance);
  }

  void sample() noexcept override {
    family_.begin();
    for (std::size_t i = 0; i < files_.size(); ++i) {
      std::int64_t number = 0;
      if (!parse_number_file(files_[i].file.read(), number)) continue;
      family_.set(static_cast<std::int32_t>(i), scaled(number, files_[i].scale));
    }
    family_.commit();
  }

 private:
  Family& family_;
  std::vector<NumberFile> files_;
};

}  // namespace

std::unique_ptr<Probe> open_number_files(const ProbeContext& context, const FamilyTable& table,
                                         std::vector<NumberFile> files) {
  return std::make_unique<NumberFilesProbe>(context.family(table), table, std::move(files));
}

}  // namespace reveal
