# Manual pages (made while installing, since they print what the programs say) and the completion of shells.
# Included by CMakeLists.txt.

find_program(HELP2MAN help2man)
find_program(GZIP gzip)
if(HELP2MAN)
  set(described collector analysis)
  if(TARGET spank_reveal)
    list(APPEND described plugin)
  endif()
  foreach(component IN LISTS described)
    install(CODE "
      execute_process(COMMAND \"${CMAKE_COMMAND}\" \"-DPROGRAMS=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}\" -DCOMPONENT=${component}
        \"-DTO=${CMAKE_BINARY_DIR}/man/${component}\" \"-DHELP2MAN=${HELP2MAN}\" \"-DGZIP=${GZIP}\"
        \"-DRELEASE=reveal ${PROJECT_VERSION}\" \"-DSOURCE=${PROJECT_SOURCE_DIR}\"
        -P \"${CMAKE_CURRENT_LIST_DIR}/manual.cmake\" RESULT_VARIABLE failed)
      if(failed)
        message(WARNING \"not all manual pages were made\")
      endif()" COMPONENT ${component})
    install(DIRECTORY ${CMAKE_BINARY_DIR}/man/${component}/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT ${component})
  endforeach()
else()
  message(STATUS "manual pages are skipped: no help2man here (Debian: apt-get install help2man)")
endif()

# One file for all programs. bash-completion looks for a file of the command's name.
set(bash_completions ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES site-config/completion/reveal.bash DESTINATION ${bash_completions} RENAME reveal-run COMPONENT collector)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated/completion)
foreach(row "collector;reveal-collect" "analysis;reveal")
  list(GET row 0 component)
  list(GET row 1 program)
  file(CREATE_LINK reveal-run ${CMAKE_BINARY_DIR}/generated/completion/${program} SYMBOLIC)
  install(FILES ${CMAKE_BINARY_DIR}/generated/completion/${program} DESTINATION ${bash_completions} COMPONENT ${component})
endforeach()
# zsh of Debian searches a folder of its own for packages; below /usr/local it searches the usual one.
set(zsh_functions ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
  set(zsh_functions ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
endif()
install(FILES site-config/completion/_reveal DESTINATION ${zsh_functions} COMPONENT collector)
