// The names of the files that reveal writes into a job's directory, besides those of its nodes. `reveal clean --delete`
// deletes these, and halves of them that a killed process left, and no others: a name that is missing here keeps the
// directory.
#pragma once

#include <array>
#include <string_view>

namespace reveal {

inline constexpr const char* kReportFile = "report.json";
inline constexpr const char* kTextPageFile = "report.txt";
inline constexpr const char* kWebPageFile = "report.html";
inline constexpr const char* kRunRecordFile = "run.json";
inline constexpr const char* kSlurmJobRecordFile = ".slurm.json";
inline constexpr const char* kClaimFile = ".job";         // the job that has the directory
inline constexpr const char* kAskedFile = ".asked";       // made by the node that queries the controller
inline constexpr const char* kMovedToFile = ".moved-to";  // the directory's new name
inline constexpr const char* kReportJobFile = ".report-job";
inline constexpr const char* kMailedFile = ".mailed";
inline constexpr const char* kNotMailedFile = ".not-mailed";  // written by early versions

inline constexpr std::string_view kMergePartBegin = ".merge-part-";  // then "3-of-8"

/// Files that a report replaces.
inline constexpr std::array<std::string_view, 4> kReportFiles = {kReportFile, kTextPageFile, kWebPageFile,
                                                                 kRunRecordFile};
/// Hidden files of the process that delivers; the lease is that of hdf5schema/basics/report_lease.h.
inline constexpr std::array<std::string_view, 8> kDeliveryFiles = {".report.lease", kSlurmJobRecordFile, kClaimFile,
                                                                   kAskedFile,      kMovedToFile,        kReportJobFile,
                                                                   kMailedFile,     kNotMailedFile};
/// Endings of the files of a node, behind its name. "n1.h5.earlier" is n1.h5 of a collector that was killed.
inline constexpr std::array<std::string_view, 8> kNodeFileEndings = {
    ".summary.json", ".h5", ".h5.part", ".h5.earlier", ".h5.live", ".h5.watch", ".h5.claimed", ".status.json"};

}  // namespace reveal
