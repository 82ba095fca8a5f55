# The body of a manual page from a document in Markdown: headings, paragraphs, lists, tables and lines of code.
# awk -f markdown_to_man.awk README.md

function plain(text) {
  gsub(/<a id="[^"]*"><\/a>/, "", text)
  while (match(text, /\[[^][]*\]\([^()]*\)/)) {
    link = substr(text, RSTART, RLENGTH)
    before = substr(text, 1, RSTART - 1)
    after = substr(text, RSTART + RLENGTH)
    sub(/\]\(.*/, "", link)
    text = before substr(link, 2) after
  }
  gsub(/\*\*/, "", text)
  gsub(/`/, "", text)
  return escaped(text)
}
function escaped(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  if (text ~ /^[.']/) text = "\\&" text
  return text
}
function begin_lines() { if (!lines) print begun ? ".PP\n.nf" : ".nf"; lines = 1; begun = 1; due = 0 }
function end_lines() { if (lines) { print ".fi"; due = 1 } lines = 0 }
function paragraph() { if (due && begun) print ".PP"; due = 0; begun = 1 }
function heading(macro, text) { flush_row(); end_lines(); print macro " \"" plain(text) "\""; due = 0; begun = 0 }
function flush_row(    cells, count, i, text) {
  if (row == "") return
  count = split(row, cells, "|")
  for (i = 3; i < count; ++i) text = text (i > 3 ? "; " : "") cells[i]
  gsub(/^ +| +$/, "", cells[2])
  gsub(/^ +/, "", text)
  print ".TP\n.B " (plain(cells[2]) == "" ? "\\&" : plain(cells[2])) "\n" plain(text)
  row = ""
  due = begun = 1
}

/^```/ {
  flush_row()
  if (fence) end_lines()
  else begin_lines()
  fence = !fence
  next
}
fence { print escaped($0); next }
/^# / { next }
/^## / { heading(".SH", toupper(substr($0, 4))); next }
/^### / { heading(".SS", substr($0, 5)); next }
/^\|[-| :]+\|$/ { row = ""; next }  # the row before it was the head of a table
/^\|/ { end_lines(); flush_row(); row = $0; next }
/^    / { flush_row(); if (!listed) { begin_lines(); print escaped(substr($0, 5)); next } }
/^$/ { flush_row(); end_lines(); due = 1; listed = 0; next }
/^- / { flush_row(); end_lines(); print ".IP \\(bu 2"; due = 0; listed = begun = 1; $0 = substr($0, 3) }
/^[0-9]+\. / { flush_row(); end_lines(); print ".IP " $1 " 4"; due = 0; listed = begun = 1; sub(/^[0-9]+\. /, "") }
{
  flush_row()
  end_lines()
  if (!listed) paragraph()
  sub(/^ +/, "")
  print plain($0)
}
END { flush_row(); end_lines() }
