/** The settings of runs, for services that show and start them. */

export { checkNodesFile, nodeSettings } from '#services/runs/nodes/settings.ts'
