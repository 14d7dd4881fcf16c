# Compiles the page of memory reports into core, so that a program needs no file to write one. The page uses d3. Without d3
# everything builds, and write_report throws an error that says what is missing.
find_file(BYTETAPE_D3 d3.min.js PATHS /usr/share/nodejs/d3/dist /usr/lib/nodejs/d3/dist NO_DEFAULT_PATH
  DOC "d3.min.js, version 5.16 or later")
find_file(BYTETAPE_D3_LICENCE copyright PATHS /usr/share/doc/node-d3 NO_DEFAULT_PATH DOC "The licence of that d3")
mark_as_advanced(BYTETAPE_D3 BYTETAPE_D3_LICENCE)

# bytetape_embed_report(<target> <folder>)
function(bytetape_embed_report target folder)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/report_page.cpp)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_report.cmake)
  file(GLOB parts CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DFOLDER=${folder} "-DD3=$<$<BOOL:${BYTETAPE_D3}>:${BYTETAPE_D3}>"
      "-DD3_LICENCE=$<$<BOOL:${BYTETAPE_D3_LICENCE}>:${BYTETAPE_D3_LICENCE}>" -P ${script}
    DEPENDS ${parts} ${script} COMMENT "Embedding the page of memory reports" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
