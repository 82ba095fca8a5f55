# Packages for Debian (cpack -G DEB) and for RPM systems (cpack -G RPM): the collector, the analysis, the plugin for Slurm
# and its stub. Configure with -DCMAKE_INSTALL_PREFIX=/usr: the paths in the programs and in the packages are the same.
# Included by CMakeLists.txt after all install().

set(package_of_collector reveal-collector)
set(package_of_analysis reveal)
set(package_of_plugin reveal-slurm)
set(package_of_stub reveal-slurm-stub)
set(same_version "(= ${PROJECT_VERSION})")

set(CPACK_COMPONENTS_ALL collector analysis)
if(TARGET spank_reveal)
  list(APPEND CPACK_COMPONENTS_ALL plugin stub)
endif()
set(CPACK_COMPONENTS_GROUPING IGNORE)  # a package for each component
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_RPM_COMPONENT_INSTALL ON)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME reveal)
set(REVEAL_PACKAGE_CONTACT "Builders of reveal <reveal@example.org>" CACHE STRING "Who builds the packages, and their address")
set(CPACK_PACKAGE_CONTACT "${REVEAL_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(about "reveal records the hardware side of a job's nodes ten times a second, compares
the job with itself, with its other nodes and with earlier runs, and says in a
report which known misconfiguration or disturbance cost how much time.")
set(CPACK_COMPONENT_COLLECTOR_DESCRIPTION "${about}
This package contains the collector and reveal-run, which watches a command.")
set(CPACK_COMPONENT_ANALYSIS_DESCRIPTION "${about}
This package contains the analysis and the reader for Python.")
set(CPACK_COMPONENT_PLUGIN_DESCRIPTION "${about}
This package contains the plugin for Slurm and the janitor of its spool.")
set(CPACK_COMPONENT_STUB_DESCRIPTION "${about}
This package contains a plugin for Slurm that accepts the option --reveal while
reveal itself is not there, so that scripts which use it still run.")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)

# --- files that only packages have
find_program(GZIP gzip)
if(GZIP)
  file(WRITE ${CMAKE_BINARY_DIR}/generated/changelog "reveal (${PROJECT_VERSION}) unstable; urgency=medium\n\n"
    "  * Version ${PROJECT_VERSION}; the history is in the repository.\n\n"
    " -- ${REVEAL_PACKAGE_CONTACT}  Sun, 22 Nov 2026 00:00:00 +0000\n")
  execute_process(COMMAND ${GZIP} -9nkf ${CMAKE_BINARY_DIR}/generated/changelog)
endif()
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  set(package ${package_of_${component}})
  set(documents ${CMAKE_INSTALL_DATADIR}/doc/${package})
  install(FILES LICENSE DESTINATION ${documents} RENAME copyright COMPONENT ${component} EXCLUDE_FROM_ALL)
  if(GZIP)
    install(FILES ${CMAKE_BINARY_DIR}/generated/changelog.gz DESTINATION ${documents} COMPONENT ${component}
      EXCLUDE_FROM_ALL)
  endif()
endforeach()
set(overrides ${CMAKE_INSTALL_DATADIR}/lintian/overrides)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/debian/lintian-overrides DESTINATION ${overrides}
  RENAME ${package_of_collector} COMPONENT collector EXCLUDE_FROM_ALL)

# --- Debian
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COLLECTOR_PACKAGE_RECOMMENDS "${package_of_analysis} ${same_version}")  # the report at the end of a run
set(CPACK_DEBIAN_COLLECTOR_PACKAGE_SUGGESTS libpfm4)  # opened at run time where it is
set(CPACK_DEBIAN_ANALYSIS_PACKAGE_DEPENDS "${package_of_collector} ${same_version}, python3")  # python3 for reveal.py
set(CPACK_DEBIAN_ANALYSIS_PACKAGE_RECOMMENDS "python3-h5py, python3-pandas")
if(slurm_soname)  # opened when it is there: the job's name, end and mail address come from the controller
  string(REGEX REPLACE "\\.so\\." "" slurm_package ${slurm_soname})
  string(APPEND CPACK_DEBIAN_ANALYSIS_PACKAGE_RECOMMENDS ", ${slurm_package}")
endif()
set(CPACK_DEBIAN_PLUGIN_PACKAGE_DEPENDS
  "${package_of_collector} ${same_version}, ${package_of_analysis} ${same_version}")
set(CPACK_DEBIAN_PLUGIN_PACKAGE_ENHANCES "slurmd, slurm-client")
set(CPACK_DEBIAN_STUB_PACKAGE_ENHANCES "slurmd, slurm-client")
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package_of_${component}})
  set(control ${CMAKE_BINARY_DIR}/generated/debian/${component})
  if(conffile_of_${component})
    file(WRITE ${control}/conffiles "${conffile_of_${component}}\n")
    list(APPEND CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${control}/conffiles)
  endif()
  foreach(script postinst postrm)
    if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/debian/${component}.${script})
      configure_file(${CMAKE_CURRENT_LIST_DIR}/debian/${component}.${script} ${control}/${script} @ONLY)
      list(APPEND CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${control}/${script})
    endif()
  endforeach()
endforeach()

# --- RPM
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE MIT)
set(CPACK_RPM_PACKAGE_RELOCATABLE OFF)
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _build_id_links none")  # they lead to packages of debug information
set(CPACK_RPM_MAIN_COMPONENT analysis)
set(CPACK_RPM_CHANGELOG_FILE ${CMAKE_BINARY_DIR}/generated/rpm-changelog)
file(WRITE ${CPACK_RPM_CHANGELOG_FILE} "* Sun Nov 22 2026 ${REVEAL_PACKAGE_CONTACT} - ${PROJECT_VERSION}-1\n"
  "- The history is in the repository.\n")
set(CPACK_RPM_ANALYSIS_PACKAGE_REQUIRES "${package_of_collector} = ${PROJECT_VERSION}, python3")
set(CPACK_RPM_PLUGIN_PACKAGE_REQUIRES
  "${package_of_collector} = ${PROJECT_VERSION}, ${package_of_analysis} = ${PROJECT_VERSION}")
set(CPACK_RPM_PLUGIN_POST_INSTALL_SCRIPT_FILE ${CMAKE_CURRENT_LIST_DIR}/rpm/plugin.post)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(CPACK_RPM_${upper}_PACKAGE_NAME ${package_of_${component}})
  if(conffile_of_${component})
    set(CPACK_RPM_${upper}_USER_FILELIST "%config(noreplace) ${conffile_of_${component}}")
  endif()
endforeach()
list(APPEND CPACK_RPM_COLLECTOR_USER_FILELIST "%exclude ${CMAKE_INSTALL_PREFIX}/${overrides}/${package_of_collector}")
# Directories of other packages.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/local)
foreach(folder bin etc lib lib/systemd lib/systemd/system lib/tmpfiles.d lib/python3 lib/python3/dist-packages lib64 libexec
    share share/bash-completion share/bash-completion/completions share/doc share/lintian share/lintian/overrides share/man
    share/man/man1 share/man/man5 share/man/man7 share/man/man8 share/zsh share/zsh/site-functions share/zsh/vendor-completions
    ${CMAKE_INSTALL_LIBDIR} ${REVEAL_SLURM_PLUGIN_DIR})
  cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
  list(APPEND CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION ${folder})
endforeach()

include(CPack)
