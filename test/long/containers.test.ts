/**
 * Dockerfile, docker-compose.yml and the configurations of Prometheus, nginx and Caddy, checked by the tools that know them: there
 * need not be a container engine. test/unit/deploy/ checks what they say about this project.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { runCommand } from '../../scripts/servers/children.ts'
import {
  installCaddy,
  installCompose,
  installHadolint,
  installNginx,
  installPromtool,
  installPythonPackage,
} from '../../scripts/servers/install.ts'
import { codeBlocks, projectFolder } from '../support/pages.ts'
import { temporaryFolder } from '../support/temporary.ts'

const patient = { timeout: 600_000 }
const timeoutMs = 60_000

/** The file with one text replaced, next to what it names. */
function broken(file: string, from: string, to: string): string {
  const text = readFileSync(join(projectFolder, file), 'utf8')
  expect(text).toContain(from)
  const copy = join(temporaryFolder(), 'copy.yml')
  writeFileSync(copy, text.replace(from, to))
  return copy
}

test('docker-compose.yml is what the Compose Specification allows', patient, async () => {
  const folder = await installPythonPackage('check-jsonschema', '0.39.0')
  const check = (file: string) =>
    runCommand('python3', ['-m', 'check_jsonschema', '--builtin-schema', 'vendor.compose-spec', file], {
      env: { PYTHONPATH: folder },
      timeoutMs,
    })
  await check(join(projectFolder, 'docker-compose.yml'))
  await expect(check(broken('docker-compose.yml', 'restart:', 'restrat:'))).rejects.toThrow()
})

test(
  'Docker Compose starts each profile with all that it depends on, and needs no file .env for it',
  patient,
  async () => {
    const compose = await installCompose()
    // Nothing of the shell, and no file .env.
    const resolve = (file: string, ...profiles: string[]) =>
      runCommand(
        'env',
        [
          '-i',
          `PATH=${process.env.PATH}`,
          compose,
          '--project-directory',
          projectFolder,
          '--env-file',
          '/dev/null',
        ]
          .concat(
            ['--file', file],
            profiles.flatMap((profile) => ['--profile', profile]),
          )
          .concat('config', '--format', 'json'),
        { timeoutMs },
      )
    const file = join(projectFolder, 'docker-compose.yml')
    const started = async (...profiles: string[]) => {
      const { services } = JSON.parse(await resolve(file, ...profiles)) as {
        services?: Record<string, Resolved>
      }
      return services ?? {}
    }
    expect(Object.keys(await started())).toEqual([])
    const { platform, ...others } = await started('embedded')
    expect(Object.keys(others)).toEqual([])
    expect(platform!.environment).toMatchObject({ FLOTILLA_SECRET_KEY: '', EMBEDDINGS_URL: '' })
    const distributed = await started('distributed')
    expect(distributed['main-api']!.environment).toMatchObject({ KAFKA_BROKERS: 'kafka:9092' })
    const withMetrics = Object.keys(await started('distributed', 'metrics'))
    expect(withMetrics.sort()).toEqual([...Object.keys(distributed), 'grafana', 'metrics'].sort())
    // What `docker compose run --rm cli` starts with it.
    expect(Object.keys(await started('cli'))).toEqual(
      expect.arrayContaining(['cli', 'webhook-relay', 'postgres']),
    )
    const relay = 'command: ["start", "webhook-relay"]'
    const alone = broken(
      'docker-compose.yml',
      `profiles: [distributed, cli]\n    ${relay}`,
      `profiles: [distributed]\n    ${relay}`,
    )
    await expect(resolve(alone, 'cli')).rejects.toThrow('webhook-relay')
  },
)

/** A service as `docker compose config` shows it. */
interface Resolved {
  environment: Record<string, string>
  entrypoint: string[]
  command: string[]
}

test('`secret-key` of docker-compose.yml ends well with a key, and says what to do without one', async () => {
  const { services } = parse(readFileSync(join(projectFolder, 'docker-compose.yml'), 'utf8'), {
    merge: true,
  }) as {
    services: { 'secret-key': Resolved }
  }
  const { entrypoint, command } = services['secret-key']
  // Compose takes two dollar signs for one.
  const [program, ...args] = [...entrypoint, ...command].map((word) => word.replaceAll('$$', '$'))
  const check = (FLOTILLA_SECRET_KEY: string) =>
    runCommand(program!, args, { env: { FLOTILLA_SECRET_KEY }, timeoutMs })
  await check('a key')
  await expect(check('')).rejects.toThrow(/FLOTILLA_SECRET_KEY is not set: make one with openssl/)
})

test('the Dockerfile has no fault that hadolint knows', patient, async () => {
  const hadolint = await installHadolint()
  const check = (file: string) => runCommand(hadolint, ['--failure-threshold', 'info', file], { timeoutMs })
  await check(join(projectFolder, 'Dockerfile'))
  await expect(check(broken('Dockerfile', 'WORKDIR /clone', 'WORKDIR clone'))).rejects.toThrow()
})

test('Prometheus reads deploy/monitoring/prometheus.yml', patient, async () => {
  const promtool = await installPromtool()
  if (promtool === null) {
    console.error('\n*** deploy/monitoring/prometheus.yml IS NOT CHECKED: put promtool on the PATH. ***\n')
    return
  }
  const check = (file: string) => runCommand(promtool, ['check', 'config', file], { timeoutMs })
  await check(join(projectFolder, 'deploy/monitoring/prometheus.yml'))
  await expect(
    check(broken('deploy/monitoring/prometheus.yml', 'static_configs', 'static_config')),
  ).rejects.toThrow()
})

test('nginx reads what docs/reverse-proxy.md shows', patient, async () => {
  const nginx = await installNginx()
  if (nginx === null) {
    console.error('\n*** docs/reverse-proxy.md IS NOT CHECKED: put nginx on the PATH. ***\n')
    return
  }
  const folder = temporaryFolder()
  const key = ['-newkey', 'rsa:2048', '-nodes', '-keyout', join(folder, 'fleet.key')]
  const certificate = ['-out', join(folder, 'fleet.pem'), '-days', '1', '-subj', '/CN=fleet.example']
  await runCommand('openssl', ['req', '-x509', ...key, ...certificate], { timeoutMs })
  const [shown] = codeBlocks('docs/reverse-proxy.md').filter(({ language }) => language === 'nginx')
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${join(folder, name)};`)
    .join('\n')
  const check = (servers: string) => {
    const file = join(folder, 'nginx.conf')
    const http = `access_log off;\n${temporary}\n${servers.replaceAll('/etc/nginx/', `${folder}/`)}`
    writeFileSync(file, `events {}\npid ${join(folder, 'pid')};\nhttp {\n${http}\n}\n`)
    return runCommand(nginx, ['-t', '-e', join(folder, 'error.log'), '-c', file], { timeoutMs })
  }
  await check(shown!.code)
  await expect(check(shown!.code.replace('proxy_buffering off', 'proxy_bufering off'))).rejects.toThrow()
})

test('Caddy reads what docs/reverse-proxy.md shows', patient, async () => {
  const caddy = await installCaddy()
  if (caddy === null) {
    console.error('\n*** docs/reverse-proxy.md IS NOT CHECKED: put caddy on the PATH. ***\n')
    return
  }
  const [shown] = codeBlocks('docs/reverse-proxy.md').filter(({ language }) => language === 'caddyfile')
  const file = join(temporaryFolder(), 'Caddyfile')
  const adapt = (text: string) => {
    writeFileSync(file, text)
    const env = { HOME: temporaryFolder() }
    return runCommand(caddy, ['adapt', '--config', file, '--adapter', 'caddyfile'], { env, timeoutMs })
  }
  const dialled = [...(await adapt(shown!.code)).matchAll(/"dial":"([^"]+)"/g)].map(([, address]) => address)
  expect(dialled.sort()).toEqual(['8080', '8081', '8082', '8083'].map((port) => `127.0.0.1:${port}`))
  await expect(adapt(shown!.code.replace('flush_interval', 'flush_intervall'))).rejects.toThrow()
})
