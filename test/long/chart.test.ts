/** The Helm chart, linted and rendered by Helm itself and checked by Kubernetes' own schemas: there need not be a cluster. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { parseAllDocuments, stringify } from 'yaml'
import { runCommand } from '../../scripts/servers/children.ts'
import { installHelm, installPythonPackage } from '../../scripts/servers/install.ts'
import { chartFolder, chartServices } from '../support/chart.ts'
import { projectFolder } from '../support/pages.ts'
import { temporaryFolder } from '../support/temporary.ts'

const installMs = 600_000
const timeoutMs = 60_000

interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string }
  spec: Record<string, unknown> & { replicas?: number; template?: { spec: PodSpec } }
}

interface PodSpec {
  containers: {
    args: string[]
    ports?: { containerPort: number }[]
    env: { name: string; value: string }[]
    envFrom: { secretRef: { name: string } }[]
    securityContext: object
    readinessProbe: { exec?: object; httpGet?: object }
  }[]
  securityContext: object
}

const needed = {
  KAFKA_BROKERS: 'kafka:9092',
  SCHEMA_REGISTRY_URL: 'http://registry:8080/apis/ccompat/v7',
  QDRANT_URL: 'http://qdrant:6333',
  MAIN_API_URL: 'https://flotilla.example',
}
const whole = {
  config: { ...needed, GATEWAY_KEY_TTL_S: 2_592_000 },
  extraSecrets: ['nodes'],
  imagePullSecrets: [{ name: 'pull' }],
  webhookTargets: { existingConfigMap: 'targets' },
  runNodes: { existingConfigMap: 'nodes' },
  authorities: { existingSecret: 'authority' },
  podAnnotations: { team: 'fleet' },
  nodeSelector: { disk: 'ssd' },
  tolerations: [{ key: 'fleet', operator: 'Exists' }],
  podMonitor: { enabled: true },
  keda: { enabled: true, authenticationRef: 'kafka' },
  services: {
    hub: { autoscaling: { enabled: true } },
    'audit-writer': { enabled: false },
    'note-indexer': { lag: { threshold: 1_000_000 } },
    'vector-writer': { env: { INDEX_TOMBSTONE_H: 48, QDRANT_URL: 'http://other:6333' } },
  },
}

/** Fails where Helm finds a fault in the chart or refuses the values. */
type Render = (values: object) => Promise<Manifest[]>
let render: Render
let jars: string | null = null

beforeAll(async () => {
  jars = await installHelm()
  if (jars === null)
    console.error('\n*** THE HELM CHART IS NOT RENDERED: there is no Helm for this machine. ***\n')
}, installMs)

beforeAll(() => {
  render = async (values) => {
    const file = join(temporaryFolder(), 'values.yaml')
    writeFileSync(file, stringify(values))
    const program = join(projectFolder, 'test/support/helm/Render.java')
    const java = ['-XX:TieredStopAtLevel=1', '-cp', join(jars!, '*'), program, chartFolder, file]
    const text = await runCommand('java', java, { timeoutMs })
    return parseAllDocuments(text, { version: '1.1' }).flatMap((one) => {
      expect(one.errors).toEqual([])
      const manifest = one.toJS() as Manifest | null
      return manifest === null ? [] : [manifest]
    })
  }
})

const of = (manifests: Manifest[], kind: string) => manifests.filter((one) => one.kind === kind)

describe('the chart', () => {
  test('is sound for Helm, and Kubernetes takes what it makes', { timeout: installMs }, async ({ skip }) => {
    if (jars === null) skip()
    const made = [await render({ config: needed }), await render(whole)].flat()
    const folder = await installPythonPackage('kubernetes-validate', '1.37.0')
    const file = join(temporaryFolder(), 'manifests.yaml')
    const ours = made.filter(({ apiVersion }) => !/^(keda\.sh|monitoring\.coreos\.com)\//.test(apiVersion))
    writeFileSync(file, ours.map((one) => stringify(one)).join('---\n'))
    const check = (path: string) =>
      runCommand('python3', ['-m', 'kubernetes_validate', '-k', '1.33', '--strict', '--quiet', path], {
        env: { PYTHONPATH: folder },
        timeoutMs,
      })
    await check(file)
    await check(join(chartFolder, 'examples/agent-with-relay.yaml'))
    const [deployment] = of(ours, 'Deployment')
    writeFileSync(file, stringify(deployment).replace('terminationGracePeriodSeconds', 'graceSeconds'))
    await expect(check(file)).rejects.toThrow()
  })

  test('runs every service, with as few rights as it needs', async ({ skip }) => {
    if (jars === null) skip()
    const made = await render({ config: needed })
    const pods = of(made, 'Deployment').map(({ spec }) => spec.template!.spec)
    expect(pods.map(({ containers }) => containers[0]!.args[1]).sort()).toEqual(
      chartServices.map(({ name }) => name).sort(),
    )
    for (const { containers, securityContext } of pods) {
      const [container] = containers as [PodSpec['containers'][0]]
      expect(securityContext).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      })
      expect(container.securityContext).toMatchObject({
        readOnlyRootFilesystem: true,
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
      })
      expect(container.envFrom).toEqual([{ secretRef: { name: 'flotilla' } }])
      const relay = container.args[1] === 'webhook-relay'
      expect(container.ports === undefined).toBe(relay)
      expect('exec' in container.readinessProbe).toBe(relay)
    }
    expect(of(made, 'PodDisruptionBudget')).toHaveLength(chartServices.length)
    expect(of(made, 'Service').map(({ metadata }) => metadata.name)).toEqual(
      ['hub', 'main-api', 'run-gateway', 'vector-gateway'].map((name) => `demo-flotilla-${name}`),
    )
    expect(of(made, 'ScaledObject')).toEqual([])
  })

  test('leaves the number of pods to what scales them', async ({ skip }) => {
    if (jars === null) skip()
    const made = await render(whole)
    const scaled = ['ScaledObject', 'HorizontalPodAutoscaler'].flatMap((kind) => of(made, kind))
    const fixed = of(made, 'Deployment').filter(({ spec }) => spec.replicas !== undefined)
    expect(scaled.map(({ metadata }) => metadata.name).sort()).toEqual(
      ['hub', 'note-indexer', 'relational-writer', 'vector-writer'].map((name) => `demo-flotilla-${name}`),
    )
    const triggers = of(made, 'ScaledObject').flatMap(({ spec }) => spec.triggers as { metadata: object }[])
    expect(triggers.map(({ metadata }) => metadata)).toContainEqual({
      bootstrapServers: 'kafka:9092',
      consumerGroup: 'note-indexer',
      topic: 'hub.records',
      lagThreshold: '1000000',
      offsetResetPolicy: 'earliest',
    })
    expect(of(made, 'Deployment')).toHaveLength(chartServices.length - 1)
    expect(fixed).toHaveLength(chartServices.length - 1 - scaled.length)
    const writer = of(made, 'Deployment').find(({ metadata }) => metadata.name.endsWith('vector-writer'))!
    const { env } = writer.spec.template!.spec.containers[0]!
    // A service's own settings win.
    expect(env).toContainEqual({ name: 'QDRANT_URL', value: 'http://other:6333' })
    expect(env).toContainEqual({ name: 'INDEX_TOMBSTONE_H', value: '48' })
    // Helm's numbers are floats: not 2.592e+06.
    expect(env).toContainEqual({ name: 'GATEWAY_KEY_TTL_S', value: '2592000' })
  })

  test.each([
    ['an engine is not named', {}, /config\.KAFKA_BROKERS is needed/],
    ['a value is unknown', { config: needed, serviecs: {} }, /serviecs/],
    [
      'a secret is among the values',
      { config: { ...needed, FLOTILLA_SECRET_KEY: 'x' } },
      /FLOTILLA_SECRET_KEY/,
    ],
  ])('is refused where %s', async (_what, values, why) => {
    if (jars === null) return
    await expect(render(values)).rejects.toThrow(why)
  })
})
