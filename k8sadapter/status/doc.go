// Package status writes the status objects of the daemons: a ConfigurationState for each daemon, and a ServiceL2Status for
// each Service that a node announces. They are for people and tools to read; nothing depends on them, so a write that
// fails is tried again and holds up nothing.
//
// Each writer is told the whole desired state with Set, compares it with what the API server has, and writes only
// differences. Each daemon writes only its own objects, so that two never fight over one (metallb#2626); what nodes that
// are gone left behind is removed by Prune, which the leading controller runs.
package status
