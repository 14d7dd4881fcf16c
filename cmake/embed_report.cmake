# Writes OUTPUT, a source that defines core/memory/report/report_page.h: the files of FOLDER and the script D3 as text.
# Run as a script: cmake -DOUTPUT=... -DFOLDER=... -DD3=... -DD3_LICENCE=... -P embed_report.cmake
file(READ ${FOLDER}/page.html html)
file(READ ${FOLDER}/style.css style)
set(d3)
if(D3)
  file(READ ${D3} d3)
endif()
# A report contains d3, and so must contain its licence.
if(D3 AND D3_LICENCE)
  file(READ ${D3_LICENCE} licence)
  string(REPLACE "*/" "* /" licence "${licence}")
  string(PREPEND d3 "/*\n${licence}*/\n")
endif()
# All scripts become one, in the order of their names.
file(GLOB files ${FOLDER}/*.js)
list(SORT files)
set(script)
foreach(file ${files})
  file(READ ${file} text)
  string(APPEND script "${text}")
endforeach()

set(source "#include \"bytetape/core/memory/report/report_page.h\"\n\nnamespace bytetape::memory::report_page {\n")
foreach(part html style script d3)
  string(APPEND source "const std::string_view ${part} = R\"embedded(${${part}})embedded\";\n")
endforeach()
string(APPEND source "}  // namespace bytetape::memory::report_page\n")
file(WRITE ${OUTPUT} "${source}")
