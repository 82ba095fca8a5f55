# The SPANK plugin, its stub and what a cluster needs besides it. README, "Installing it on a cluster".
# Included by CMakeLists.txt.

set(REVEAL_SLURM_PLUGIN_DIR ${CMAKE_INSTALL_LIBDIR}/slurm-wlm CACHE STRING "Slurm's PluginDir; the default is Debian's")
# Where the programs look: a prefix of /usr means /etc, any other one has its own etc.
set(REVEAL_SITE_DIR ${CMAKE_INSTALL_SYSCONFDIR}/reveal)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(REVEAL_SITE_DIR /etc/reveal)
endif()
cmake_path(ABSOLUTE_PATH REVEAL_SITE_DIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
set(site_files "collector;${CMAKE_CURRENT_LIST_DIR}/reveal.conf")  # component and file

set(janitor ${CMAKE_INSTALL_FULL_LIBEXECDIR}/reveal/spool-janitor)
set_source_files_properties(postproc/deliver/site_checks.cpp PROPERTIES
  COMPILE_DEFINITIONS REVEAL_JANITOR="${janitor}")

find_path(SLURM_SPANK_INCLUDE slurm/spank.h DOC "Folder of Slurm's headers, from libslurm-dev")
if(SLURM_SPANK_INCLUDE)
  file(GLOB plugin_sources CONFIGURE_DEPENDS spank/*.c)
  set(plugin_exports ${PROJECT_SOURCE_DIR}/spank/spank_reveal.map)
  add_library(spank_reveal MODULE ${plugin_sources})
  set_target_properties(spank_reveal PROPERTIES PREFIX "" C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib LINK_DEPENDS ${plugin_exports})
  target_include_directories(spank_reveal SYSTEM PRIVATE ${SLURM_SPANK_INCLUDE})
  target_compile_definitions(spank_reveal PRIVATE _GNU_SOURCE
    REVEAL_COLLECTOR="${CMAKE_INSTALL_FULL_BINDIR}/reveal-collect"
    REVEAL_JANITOR="${janitor}")
  target_link_options(spank_reveal PRIVATE -Wl,--version-script=${plugin_exports})
  install(TARGETS spank_reveal LIBRARY DESTINATION ${REVEAL_SLURM_PLUGIN_DIR} COMPONENT plugin)

  add_library(spank_reveal_stub MODULE spank/stub/spank_reveal_stub.c)
  set_target_properties(spank_reveal_stub PROPERTIES PREFIX "" C_EXTENSIONS OFF
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib LINK_DEPENDS ${plugin_exports})
  target_include_directories(spank_reveal_stub SYSTEM PRIVATE ${SLURM_SPANK_INCLUDE})
  target_link_options(spank_reveal_stub PRIVATE -Wl,--version-script=${plugin_exports})
  install(TARGETS spank_reveal_stub LIBRARY DESTINATION ${REVEAL_SLURM_PLUGIN_DIR} COMPONENT stub)
  # For a release of Slurm that reveal was not built for.
  install(FILES spank/stub/spank_reveal_stub.c DESTINATION ${CMAKE_INSTALL_DATADIR}/reveal COMPONENT stub)

  # With its whole path, a plugin is found wherever Slurm's PluginDir points.
  set(plugin_dir ${REVEAL_SLURM_PLUGIN_DIR})
  cmake_path(ABSOLUTE_PATH plugin_dir BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
  foreach(name plugstack plugstack-stub)
    file(READ ${CMAKE_CURRENT_LIST_DIR}/${name}.conf plugstack)
    string(REPLACE "optional spank_reveal" "optional ${plugin_dir}/spank_reveal" plugstack "${plugstack}")
    string(REPLACE "/etc/reveal/" "${REVEAL_SITE_DIR}/" plugstack "${plugstack}")
    string(REPLACE "/usr/share/" "${CMAKE_INSTALL_FULL_DATADIR}/" plugstack "${plugstack}")
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${name}.conf CONTENT "${plugstack}" @ONLY)
  endforeach()
  list(APPEND site_files plugin ${CMAKE_BINARY_DIR}/generated/plugstack.conf)
  # Nothing in it is the site's to change, and it goes with the package: it is no file of /etc.
  install(FILES ${CMAKE_BINARY_DIR}/generated/plugstack-stub.conf DESTINATION ${CMAKE_INSTALL_DATADIR}/reveal COMPONENT stub)
else()
  message(STATUS "spank_reveal.so is skipped: no slurm/spank.h here (Debian: apt-get install libslurm-dev)")
endif()

# A file that is there already belongs to the site: it stays, and ours, where it differs, is laid beside it.
while(site_files)
  list(POP_FRONT site_files component file)
  cmake_path(GET file FILENAME name)
  set(conffile_of_${component} ${REVEAL_SITE_DIR}/${name})
  install(CODE "
    set(ours \"${file}\")
    set(site \"${REVEAL_SITE_DIR}\")
    if(NOT CMAKE_INSTALL_PREFIX STREQUAL \"${CMAKE_INSTALL_PREFIX}\")  # cmake --install --prefix: nothing outside of it
      set(site \"\${CMAKE_INSTALL_PREFIX}/etc/reveal\")
      file(READ \"\${ours}\" text)
      string(REPLACE \"${REVEAL_SITE_DIR}/\" \"\${site}/\" text \"\${text}\")
      string(REPLACE \"${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/\" \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/\" text \"\${text}\")
      # The plugin itself knows the prefix that it was configured with.
      string(REPLACE \"spank_reveal.so config=\" \"spank_reveal.so collector=\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/reveal-collect config=\" text \"\${text}\")
      set(ours \"${CMAKE_BINARY_DIR}/generated/elsewhere/${name}\")
      file(WRITE \"\${ours}\" \"\${text}\")
    endif()
    set(theirs \"\$ENV{DESTDIR}\${site}/${name}\")
    set(name ${name})
    execute_process(COMMAND \"${CMAKE_COMMAND}\" -E compare_files \"\${ours}\" \"\${theirs}\"
      RESULT_VARIABLE differs OUTPUT_QUIET ERROR_QUIET)
    if(differs AND EXISTS \"\${theirs}\")
      set(name ${name}.new)
    endif()
    file(INSTALL \"\${ours}\" DESTINATION \"\${site}\" RENAME \${name})" COMPONENT ${component})
endwhile()

foreach(row "plugin;reveal-janitor" "analysis;reveal-digest" "analysis;reveal-mailer")
  list(GET row 0 component)
  list(GET row 1 service)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/systemd/${service}.service.in generated/${service}.service @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/generated/${service}.service site-config/systemd/${service}.timer
    DESTINATION lib/systemd/system COMPONENT ${component})
endforeach()
install(PROGRAMS site-config/spool-janitor DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/reveal COMPONENT plugin)
install(FILES site-config/tmpfiles.d/reveal.conf DESTINATION lib/tmpfiles.d COMPONENT plugin)
