#pragma once

namespace bytetape::examples {

/// Notes the first SIGINT (Ctrl-C) or SIGTERM, so that training can stop after its step. A second one ends the process.
/// A signal that is ignored stays ignored, such as SIGINT in a background job of a script.
void catch_interrupts();
/// Restores the default: a signal ends the process. Call it when training is over.
void release_interrupts();
/// Returns the noted signal, or 0 if there was none.
int interrupted();

}  // namespace bytetape::examples
