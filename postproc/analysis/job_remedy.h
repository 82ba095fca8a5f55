// Names of the whole job in the lines of remedies, and the lines that are allowed in a report of another user.
#pragma once

#include "postproc/diagnose/remedy.h"
#include "postproc/report/report.h"

namespace reveal {

[[nodiscard]] RemedyNames remedy_names(const ReportJob& job);

/// Lines were filled when findings were made: after merging, and the comparison with earlier runs, they name the nodes
/// that the findings are about now.
void name_nodes_in_remedies(Report& report);

/// Replaces titles and remedies of all findings by those of the rule table: of a file of another user, only the values
/// in the lines of the table are taken.
void take_texts_of_rules(Report& report);

}  // namespace reveal
