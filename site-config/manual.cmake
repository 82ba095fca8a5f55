# Manual pages from what the programs print as --help, and from reveal.conf: written by `cmake --install`, and by cpack.
# cmake -DPROGRAMS=DIR -DTO=DIR -DHELP2MAN=FILE -DGZIP=FILE -DRELEASE=TEXT -DCONF=FILE -P manual.cmake

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

help_of(overview reveal)
string(REGEX MATCH "\nSubcommands:\n(  [^\n]*\n)+" table "${overview}")
string(REGEX MATCHALL "\n  [a-z]+ " commands "${table}")
list(TRANSFORM commands REPLACE "[\n ]" "")
list(REMOVE_ITEM commands help)
set(pages "")
foreach(command IN LISTS commands)
  page_of(reveal ${command} ".BR reveal (1)")
  list(APPEND pages ".BR reveal-${command} (1)")
endforeach()
list(JOIN pages ",\n" pages)
page_of(reveal "" ".BR reveal-run (1),\n.BR reveal.conf (5),\n${pages}")
page_of(reveal-run "" ".BR reveal (1),\n.BR reveal.conf (5)")
page_of(reveal-collect "" ".BR reveal (1),\n.BR reveal-run (1),\n.BR reveal.conf (5)")

file(READ ${CONF} conf)
string(REPLACE "\\" "\\e" conf "${conf}")
string(REPLACE "-" "\\-" conf "${conf}")
string(REGEX REPLACE "\n([.'])" "\n\\\\&\\1" conf "${conf}")
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
${conf}
.fi
.SH \"SEE ALSO\"
.BR reveal-config (1),
.BR reveal-run (1)
")
