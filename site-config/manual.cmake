# Manual pages of what the programs print (their --help, rules and metrics), of reveal.conf and of every file format:
# written by `cmake --install`, and by cpack.
# cmake -DCOMPONENT=collector|analysis|plugin -DPROGRAMS=DIR -DTO=DIR -DHELP2MAN=FILE -DGZIP=FILE -DRELEASE=TEXT -DSOURCE=DIR
#       -P manual.cmake

file(REMOVE_RECURSE ${TO})

function(write_page name section text)
  set(page ${TO}/man${section}/${name}.${section})
  file(WRITE ${page} "${text}")
  if(GZIP)  # Debian asks for it
    execute_process(COMMAND ${GZIP} -9nf ${page} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endfunction()

function(help_of variable)  # help_of(VARIABLE PROGRAM [COMMAND])
  execute_process(COMMAND ${PROGRAMS}/${ARGN} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} "${help}" PARENT_SCOPE)
endfunction()

function(page_of program command others)
  set(name ${program})
  set(option --help)
  set(words ${program})
  if(command)
    set(name ${program}-${command})
    set(option "${command} --help")
    list(APPEND words ${command})
  endif()
  help_of(help ${words})
  string(REGEX MATCH "^[^\n]+" summary "${help}")
  string(REGEX REPLACE "[.;:].*$" "" summary "${summary}")
  execute_process(
    COMMAND ${HELP2MAN} --no-info --help-option=${option} --version-string=${RELEASE} --name=${summary} ${PROGRAMS}/${program}
    OUTPUT_VARIABLE page COMMAND_ERROR_IS_FATAL ANY)
  # It names a page by its program, and fills the lines of examples.
  string(TOUPPER ${name} title)
  string(REGEX REPLACE "\n\\.TH [^ ]+ " "\n.TH ${title} " page "${page}")
  string(REGEX REPLACE "\n\\.SH NAME\n[^ ]+ " "\n.SH NAME\n${name} " page "${page}")
  string(REGEX REPLACE "(\n\\.SH EXAMPLES)\n\\.IP\n" "\\1\n.nf\n" page "${page}")
  string(APPEND page ".fi\n.SH \"SEE ALSO\"\n${others}\n")
  write_page(${name} 1 "${page}")
endfunction()

# Lines that stay as they are, for a page.
function(escape variable text)
  string(REPLACE "\\" "\\e" text "${text}")
  string(REPLACE "-" "\\-" text "${text}")
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

# A document of the source tree as a page of section 5.
function(page_of_format name document summary)  # page_of_format(NAME DOCUMENT SUMMARY OTHER-PAGE...)
  execute_process(COMMAND awk -f ${SOURCE}/site-config/markdown_to_man.awk ${SOURCE}/${document}
    OUTPUT_VARIABLE format COMMAND_ERROR_IS_FATAL ANY)
  string(TOUPPER ${name} title)
  list(TRANSFORM ARGN REPLACE "^(.*)\\.([1-9])$" ".BR \\1 (\\2)" OUTPUT_VARIABLE others)
  string(REPLACE ";" ",\n" others "${others}")
  string(REPLACE "-" "\\-" others "${others}")
  write_page(${name} 5 ".TH ${title} 5 \"\" \"${RELEASE}\" \"File formats\"
.SH NAME
${name} \\- ${summary}
.SH DESCRIPTION
${format}.SH \"SEE ALSO\"
${others}
")
endfunction()

set(conf ${SOURCE}/site-config/reveal.conf)  # comments only: programs that read it use their defaults

# Every rule as `reveal rules ID` explains it.
function(page_of_rules)
  execute_process(COMMAND ${PROGRAMS}/reveal rules --config ${conf} OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "(^|\n)[a-z0-9_]+\\.[a-z0-9_.]+ " ids "${table}")
  list(TRANSFORM ids REPLACE "[\n ]" "")
  set(rules "")
  foreach(id IN LISTS ids)
    execute_process(COMMAND ${PROGRAMS}/reveal rules ${id} --config ${conf} OUTPUT_VARIABLE rule COMMAND_ERROR_IS_FATAL ANY)
    escape(rule "${rule}")
    string(APPEND rules ".SS ${id}\n.nf\n${rule}.fi\n")
  endforeach()
  write_page(reveal-rules 7 ".TH REVEAL-RULES 7 \"\" \"${RELEASE}\" \"Rules\"
.SH NAME
reveal-rules \\- the known causes that reveal looks for
.SH DESCRIPTION
A rule is one known cause: its signal, its look\\-alikes, its thresholds and its remedy. Sites and users change thresholds
in
.BR reveal.conf (5).
The page shows the defaults;
.B reveal rules
prints the values in force.
.SH RULES
${rules}.SH \"SEE ALSO\"
.BR reveal\\-rules (1),
.BR reveal\\-probes (7),
.BR reveal.conf (5)
")
endfunction()

if(COMPONENT STREQUAL analysis)
  help_of(overview reveal)
  string(REGEX MATCH "\nSubcommands:\n(  [^\n]*\n)+" table "${overview}")
  string(REGEX MATCHALL "\n  [a-z-]+ " commands "${table}")
  list(TRANSFORM commands REPLACE "[\n ]" "")
  list(REMOVE_ITEM commands help)
  set(pages "")
  foreach(command IN LISTS commands)
    page_of(reveal ${command} ".BR reveal (1)")
    list(APPEND pages ".BR reveal-${command} (1)")
  endforeach()
  list(JOIN pages ",\n" pages)
  page_of(reveal "" ".BR reveal-run (1),\n.BR reveal.conf (5),\n.BR reveal-rules (7),\n${pages}")
  page_of_rules()
  page_of_format(reveal.run postproc/history/run.md "the record of a run for later ones, run.json"
    reveal-list.1 reveal-report.1 reveal.report.5)
  page_of_format(reveal.alerts postproc/live/alerts.md "alerts of a running job as data"
    reveal-watch.1 reveal.report.5 reveal.status.5)
  page_of_format(reveal.ledger postproc/ledger/ledger.md "the nodes of many jobs as data, nodes.jsonl"
    reveal-nodes.1 reveal.report.5 reveal-rules.7)
  return()
endif()

if(COMPONENT STREQUAL plugin)
  file(READ ${SOURCE}/site-config/plugstack.conf arguments)
  escape(arguments "${arguments}")
  write_page(spank_reveal 8 ".TH SPANK_REVEAL 8 \"\" \"${RELEASE}\" \"System administration\"
.SH NAME
spank_reveal \\- the plugin of reveal for Slurm
.SH DESCRIPTION
The plugin gives
.BR srun ,
.B sbatch
and
.B salloc
the option \\-\\-reveal, starts a collector on each node of a job, and delivers the traces at the end of the job. Its
arguments stand in Slurm's plugstack.conf:
.PP
.nf
${arguments}
.fi
.SH \"SEE ALSO\"
.BR reveal (1),
.BR reveal.conf (5),
.BR srun (1)
")
  return()
endif()

page_of(reveal-run "" ".BR reveal (1),\n.BR reveal.conf (5)")
page_of(reveal-collect "" ".BR reveal (1),\n.BR reveal-run (1),\n.BR reveal.conf (5),\n.BR reveal.h5 (5),\n.BR reveal-probes (7)")

file(READ ${conf} settings)
escape(settings "${settings}")
write_page(reveal.conf 5 ".TH REVEAL.CONF 5 \"\" \"${RELEASE}\" \"File formats\"
.SH NAME
reveal.conf \\- settings of reveal, of the site and of a user
.SH DESCRIPTION
The site's file is /etc/reveal/reveal.conf, or etc/reveal/reveal.conf below the prefix of the installation; a user's is
~/.config/reveal/reveal.conf.
.B reveal config
prints what is in force and where each setting comes from. All settings, with their defaults:
.PP
.nf
${settings}
.fi
.SH \"SEE ALSO\"
.BR reveal\\-config (1),
.BR reveal\\-run (1)
")

page_of_format(reveal.h5 hdf5schema/README.md "the trace of one node and job"
  reveal-collect.1 reveal-export.1 reveal.report.5 reveal.status.5 reveal-probes.7)
page_of_format(reveal.report postproc/report/README.md "the report of a job as data, report.json"
  reveal-show.1 reveal-report.1 reveal.h5.5 reveal.run.5 reveal-rules.7)
page_of_format(reveal.status core/sampler/status.md "progress and cost of a running collector, NODE.status.json"
  reveal-collect.1 reveal-watch.1 reveal.alerts.5 reveal.h5.5)

execute_process(COMMAND ${PROGRAMS}/reveal-collect --list-probes OUTPUT_VARIABLE probes COMMAND_ERROR_IS_FATAL ANY)
escape(probes "${probes}")
execute_process(COMMAND awk -f ${SOURCE}/site-config/markdown_to_man.awk ${SOURCE}/core/probes/README.md
  OUTPUT_VARIABLE explained COMMAND_ERROR_IS_FATAL ANY)
write_page(reveal-probes 7 ".TH REVEAL-PROBES 7 \"\" \"${RELEASE}\" \"Probes\"
.SH NAME
reveal-probes \\- the probes of reveal and their metrics
.SH DESCRIPTION
A probe reads one source of the kernel or of a device.
.B reveal probes NAME
explains one of them;
.B reveal\\-collect \\-\\-check
prints the probes that work on this node.
.PP
.nf
${probes}.fi
.SH EXPLANATIONS
${explained}.SH \"SEE ALSO\"
.BR reveal\\-collect (1),
.BR reveal\\-probes (1),
.BR reveal.h5 (5)
")
