// What the lines of remedies name of the whole job, and what they may say where a report comes from somebody else.
#pragma once

#include "postproc/diagnose/remedy.h"
#include "postproc/report/report.h"

namespace reveal {

[[nodiscard]] RemedyNames remedy_names(const ReportJob& job);

/// Lines were filled when findings were made: after merging, and the comparison with earlier runs, they name the nodes
/// that the findings are about now.
void name_nodes_in_remedies(Report& report);

/// Titles and remedies of all findings by the rule table: a file of somebody else says no more of what to type than the
/// values in lines of the table.
void take_texts_of_rules(Report& report);

}  // namespace reveal
