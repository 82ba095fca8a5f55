# The SPANK plugin, what a cluster needs besides it, and the Debian package. README, "Installing it on a cluster".
# Included by CMakeLists.txt.

set(REVEAL_SLURM_PLUGIN_DIR ${CMAKE_INSTALL_LIBDIR}/slurm-wlm CACHE STRING "Slurm's PluginDir; the default is Debian's")
# Where the programs look: a prefix of /usr means /etc, any other one has its own etc.
set(REVEAL_SITE_DIR ${CMAKE_INSTALL_SYSCONFDIR}/reveal)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(REVEAL_SITE_DIR /etc/reveal)
endif()
cmake_path(ABSOLUTE_PATH REVEAL_SITE_DIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
set(site_files ${CMAKE_CURRENT_LIST_DIR}/reveal.conf)

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
  install(TARGETS spank_reveal LIBRARY DESTINATION ${REVEAL_SLURM_PLUGIN_DIR})

  # With its whole path, the plugin is found wherever Slurm's PluginDir points.
  set(plugin ${REVEAL_SLURM_PLUGIN_DIR}/spank_reveal.so)
  cmake_path(ABSOLUTE_PATH plugin BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
  file(READ ${CMAKE_CURRENT_LIST_DIR}/plugstack.conf.d/reveal.conf plugstack)
  string(REPLACE "optional spank_reveal.so" "optional ${plugin}" plugstack "${plugstack}")
  string(REPLACE "/etc/reveal/" "${REVEAL_SITE_DIR}/" plugstack "${plugstack}")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/plugstack.conf CONTENT "${plugstack}" @ONLY)
  list(APPEND site_files ${CMAKE_BINARY_DIR}/generated/plugstack.conf)
else()
  message(STATUS "spank_reveal.so is skipped: no slurm/spank.h here (Debian: apt-get install libslurm-dev)")
endif()

# A file that is there already belongs to the site: it stays, and ours, where it differs, is laid beside it.
set(conffiles "")
foreach(file IN LISTS site_files)
  cmake_path(GET file FILENAME name)
  string(APPEND conffiles "${REVEAL_SITE_DIR}/${name}\n")
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
    file(INSTALL \"\${ours}\" DESTINATION \"\${site}\" RENAME \${name})")
endforeach()

foreach(service reveal-janitor reveal-digest)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/systemd/${service}.service.in generated/${service}.service @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/generated/${service}.service site-config/systemd/${service}.timer
    DESTINATION lib/systemd/system)
endforeach()
install(PROGRAMS site-config/spool-janitor DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/reveal)
install(FILES site-config/tmpfiles.d/reveal.conf DESTINATION lib/tmpfiles.d)

install(FILES site-config/debian/lintian-overrides DESTINATION share/lintian/overrides RENAME reveal)

# cpack -G DEB. Configure with -DCMAKE_INSTALL_PREFIX=/usr: the paths in the programs and in the package are the same.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME reveal)
set(CPACK_PACKAGE_CONTACT "The reveal developers <root@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "reveal records the hardware side of a job's nodes ten times a second, compares
the job with itself, with its other nodes and with earlier runs, and says in a
report which known misconfiguration or disturbance cost how much time. It
contains the collector, the analysis and a plugin for Slurm.")
# Debian wants its own names for these two.
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
find_program(GZIP gzip)
if(GZIP)
  file(WRITE ${CMAKE_BINARY_DIR}/generated/changelog "reveal (${PROJECT_VERSION}) unstable; urgency=medium\n\n"
    "  * Version ${PROJECT_VERSION}; the history is in the repository.\n\n"
    " -- The reveal developers <root@localhost>  Sun, 22 Nov 2026 00:00:00 +0000\n")
  execute_process(COMMAND ${GZIP} -9nkf ${CMAKE_BINARY_DIR}/generated/changelog)
  install(FILES ${CMAKE_BINARY_DIR}/generated/changelog.gz DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS python3)  # for reveal.py
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-h5py, python3-pandas")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS libpfm4)  # opened at run time where it is
set(CPACK_DEBIAN_PACKAGE_ENHANCES "slurmd, slurm-client")
if(slurm_soname)  # opened when it is there: the job's name, end and mail address come from the controller
  string(REGEX REPLACE "\\.so\\." "" slurm_package ${slurm_soname})
  string(APPEND CPACK_DEBIAN_PACKAGE_RECOMMENDS ", ${slurm_package}")
endif()
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
file(WRITE ${CMAKE_BINARY_DIR}/generated/conffiles "${conffiles}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/generated/conffiles
  ${CMAKE_CURRENT_LIST_DIR}/debian/postinst ${CMAKE_CURRENT_LIST_DIR}/debian/postrm)
include(CPack)
