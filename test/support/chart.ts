/** The Helm chart as the tests of it read it. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { services as all } from '#services/index.ts'
import { projectFolder } from './pages.ts'

export const chartFolder = join(projectFolder, 'deploy', 'charts', 'flotilla')

/** The reference nodes run where the engines are embedded. */
export const chartServices = all.filter(({ name }) => name !== 'reference-nodes')

export interface ChartService {
  enabled: boolean
  replicas: number
  env: Record<string, string | number | boolean>
  terminationGracePeriodSeconds?: number
  resources: { requests: { memory: string }; limits: { memory: string } }
  autoscaling?: { enabled: boolean; minReplicas: number; maxReplicas: number }
  lag?: { enabled: boolean; minReplicas: number; maxReplicas: number; group: string; topic: string }
}

export interface ChartValues {
  config: Record<string, string>
  existingSecret: string
  services: Record<string, ChartService>
}

export function readChart(file: string): string {
  return readFileSync(join(chartFolder, file), 'utf8')
}

export function chartValues(): ChartValues {
  return parse(readChart('values.yaml')) as ChartValues
}
