# Manual pages (made while installing, since they print what the programs say) and the completion of shells.
# Included by CMakeLists.txt.

find_program(HELP2MAN help2man)
find_program(GZIP gzip)
if(HELP2MAN)
  install(CODE "
    execute_process(COMMAND \"${CMAKE_COMMAND}\" \"-DPROGRAMS=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}\"
      \"-DTO=${CMAKE_BINARY_DIR}/man\" \"-DHELP2MAN=${HELP2MAN}\" \"-DGZIP=${GZIP}\"
      \"-DRELEASE=reveal ${PROJECT_VERSION}\" \"-DCONF=${CMAKE_CURRENT_LIST_DIR}/reveal.conf\"
      -P \"${CMAKE_CURRENT_LIST_DIR}/manual.cmake\" RESULT_VARIABLE failed)
    if(failed)
      message(WARNING \"not all manual pages were made\")
    endif()")
  install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
else()
  message(STATUS "manual pages are skipped: no help2man here (Debian: apt-get install help2man)")
endif()

install(FILES site-config/completion/reveal.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME reveal)
foreach(program reveal-run reveal-collect)  # bash-completion looks for a file of the command's name
  install(CODE "file(CREATE_LINK reveal
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/bash-completion/completions/${program}\" SYMBOLIC)")
endforeach()
install(FILES site-config/completion/_reveal DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
