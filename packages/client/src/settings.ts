/** Where the platform is and who the caller is: by options, else by variables, else by the data directory of a platform here. */

import type { FindOptions } from './find.ts'
import type { TransportOptions } from './transport.ts'

export interface ClientOptions extends Omit<TransportOptions, 'baseUrl'> {
  /** The data directory of a platform on this machine. Default: `FLOTILLA_HOME`, else `.flotilla` of this folder. */
  home?: string | undefined
  /** The vector gateway. Default: `FLOTILLA_VECTOR_URL`, else as the data directory says, else `http://127.0.0.1:8080`; so the others. */
  vectorUrl?: string | undefined
  hubUrl?: string | undefined
  /** The run gateway. */
  runUrl?: string | undefined
  /** The main API. */
  baseUrl?: string | undefined
  /** The webhook relay: a URL or `host:port`. */
  webhookUrl?: string | undefined
  /** Default: `FLOTILLA_AGENT_ID`, else the only agent in the data directory. */
  agentId?: string | undefined
  /** PKCS#8 PEM of the agent's Ed25519 key, or the file that holds it. Default: the agent's file in the data directory. */
  privateKeyPem?: string | undefined
  privateKeyFile?: string | undefined
  /** A gateway key, which is not renewed, in place of a private key. */
  apiKey?: string | undefined
  /** `svc_` and 64 hex digits: buys ID tokens for the main API, and for hub and runs where there is no other credential. */
  agentKey?: string | undefined
  /** The file that holds it. */
  agentKeyFile?: string | undefined
  /** An ID token made elsewhere: a text, or a function that gives the present one. */
  idToken?: string | (() => string | Promise<string>) | undefined
  /** `identity_exchange_url`. Default: as the data directory says, else that of the platform's own issuer, below `baseUrl`. */
  identityExchangeUrl?: string | undefined
  /** The web API key of the Firebase project; the platform's own issuer takes any. */
  webApiKey?: string | undefined
  /** The index file that `find` searches. */
  localIndex?: FindOptions['index']
  /** Milliseconds that only go forward, for tests. */
  now?: () => number
}

export const defaultWebhookUrl = 'http://127.0.0.1:9090'

type Service = 'vectorUrl' | 'baseUrl' | 'runUrl' | 'hubUrl' | 'webhookUrl'

/** For each its default, its variables, and its name in `run/addresses.json`. */
const services: Record<Service, { url: string; variables: string[]; written: string }> = {
  vectorUrl: { url: 'http://127.0.0.1:8080', variables: ['FLOTILLA_VECTOR_URL'], written: 'vector_url' },
  baseUrl: { url: 'http://127.0.0.1:8081', variables: ['FLOTILLA_BASE_URL'], written: 'base_url' },
  runUrl: { url: 'http://127.0.0.1:8082', variables: ['FLOTILLA_RUN_URL'], written: 'agent_gateway_url' },
  hubUrl: { url: 'http://127.0.0.1:8083', variables: ['FLOTILLA_HUB_URL'], written: 'hub_url' },
  webhookUrl: {
    url: defaultWebhookUrl,
    variables: ['FLOTILLA_WEBHOOK_URL', 'WEBHOOK_GATEWAY'],
    written: 'webhook_url',
  },
}

type Who = Pick<
  ClientOptions,
  'agentId' | 'privateKeyPem' | 'privateKeyFile' | 'apiKey' | 'agentKey' | 'agentKeyFile' | 'idToken'
>

export interface Settings extends Pick<Who, 'agentId' | 'apiKey' | 'idToken'> {
  urls: Record<Service, string>
  identityExchangeUrl: string | undefined
  webApiKey: string | undefined
  /** Both throw what reading their file throws. */
  agentKey?: (() => string) | undefined
  privateKeyPem?: (() => string) | undefined
  /** What to do where there is no credential. */
  missing: string
}

/** What a runtime gives a program: variables and files, or nothing of them, as in browsers. */
export interface Runtime {
  environment: Readonly<Record<string, string | undefined>>
  files?: {
    /** Throws where there is no such file. */
    read(path: string): string
    /** Names in a folder; none where there is no such folder. */
    list(path: string): string[]
  }
}

/** Throws TypeError for an address that is none, and for a private key without the id of its agent. */
export function settingsOf(options: ClientOptions, runtime: Runtime = thisRuntime()): Settings {
  const { environment, files } = runtime
  const home = options.home ?? (environment.FLOTILLA_HOME || '.flotilla')
  const written = objectIn(runtime, `${home}/run/addresses.json`)
  const urlOf = (name: Service): string => {
    const { url, variables, written: key } = services[name]
    const set = variables.map((variable) => environment[variable]).find(Boolean)
    return addressOf(options[name] || set || textIn(written, key) || url)
  }
  const who = hasCredential(options) ? options : fromVariables(environment)
  const read = (path: string) => {
    if (files) return files.read(path)
    throw new TypeError('there are no files here: give the key itself')
  }
  return {
    urls: {
      vectorUrl: urlOf('vectorUrl'),
      baseUrl: urlOf('baseUrl'),
      runUrl: urlOf('runUrl'),
      hubUrl: urlOf('hubUrl'),
      webhookUrl: urlOf('webhookUrl'),
    },
    identityExchangeUrl:
      options.identityExchangeUrl ??
      (environment.FLOTILLA_IDENTITY_EXCHANGE_URL || textIn(written, 'identity_exchange_url')),
    webApiKey: options.webApiKey ?? (environment.FLOTILLA_WEB_API_KEY || undefined),
    apiKey: who.apiKey,
    agentKey: agentKeyIn(who, read),
    idToken: who.idToken,
    ...signerIn(runtime, home, who, read),
  }
}

/** A given credential leaves the variables alone: they may be those of another agent. */
function hasCredential(options: ClientOptions): boolean {
  const { agentId, privateKeyPem, privateKeyFile, apiKey, agentKey, agentKeyFile, idToken } = options
  const given = [agentId, privateKeyPem, privateKeyFile, apiKey, agentKey, agentKeyFile, idToken]
  return given.some((one) => one !== undefined)
}

function fromVariables(environment: Runtime['environment']): Who {
  return {
    agentId: environment.FLOTILLA_AGENT_ID || undefined,
    privateKeyFile: environment.FLOTILLA_PRIVATE_KEY_FILE || undefined,
    apiKey: environment.FLOTILLA_API_KEY || undefined,
    agentKey: environment.FLOTILLA_AGENT_KEY || undefined,
    idToken: environment.FLOTILLA_ID_TOKEN || undefined,
  }
}

function agentKeyIn({ agentKey, agentKeyFile }: Who, read: (path: string) => string) {
  if (agentKey === undefined && agentKeyFile === undefined) return undefined
  return () => (agentKey ?? read(agentKeyFile as string)).trim()
}

/** The agent that signs handshakes, how its key is read, and what to do where there is none. */
function signerIn(
  runtime: Runtime,
  home: string,
  { agentId, privateKeyPem: pem, privateKeyFile: file, apiKey, agentKey, agentKeyFile, idToken }: Who,
  read: (path: string) => string,
): Pick<Settings, 'agentId' | 'privateKeyPem' | 'missing'> {
  const keyFile = (id: string) => () => read(`${home}/agents/${id}/ed25519.pem`)
  if (pem !== undefined || file !== undefined) {
    if (agentId === undefined) {
      throw new TypeError('a private key needs the id of its agent: give agentId, or set FLOTILLA_AGENT_ID')
    }
    return { agentId, privateKeyPem: () => pem ?? read(file as string), missing: '' }
  }
  if (apiKey !== undefined) return { agentId, missing: '' }
  if (agentId !== undefined) return { agentId, privateKeyPem: keyFile(agentId), missing: '' }
  if ((agentKey ?? agentKeyFile ?? idToken) !== undefined) {
    return { agentId, missing: 'this needs a gateway key: give agentId with a private key, or apiKey' }
  }
  const found = agentsIn(runtime, home)
  const [only] = found
  if (found.length === 1 && only !== undefined) {
    return { agentId: only, privateKeyPem: keyFile(only), missing: '' }
  }
  const missing =
    found.length === 0
      ? `there is no agent in ${home}/agents: provision one, or set FLOTILLA_AGENT_ID and FLOTILLA_PRIVATE_KEY_FILE`
      : `there are several agents in ${home}/agents: set FLOTILLA_AGENT_ID to one of ${found.join(', ')}`
  return { agentId, missing }
}

/** Agents whose key lies in the data directory, without those that the platform made for itself. */
function agentsIn(runtime: Runtime, home: string): string[] {
  const { provisioned } = objectIn(runtime, `${home}/reference-nodes.json`)
  const own: unknown[] = Array.isArray(provisioned) ? provisioned : []
  const names = runtime.files?.list(`${home}/agents`) ?? []
  return names
    .filter((name) => !own.includes(name))
    .filter((name) => runtime.files?.list(`${home}/agents/${name}`).includes('ed25519.pem'))
    .sort()
}

/** Empty where there is no such file, or it may not be read. */
function objectIn({ files }: Runtime, path: string): Record<string, unknown> {
  try {
    const value: unknown = files ? JSON.parse(files.read(path)) : {}
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

function textIn(object: Record<string, unknown>, name: string): string | undefined {
  const value = object[name]
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** It may be `host:port`, as in WEBHOOK_GATEWAY. Throws TypeError for one that is neither. */
export function addressOf(given: string): string {
  const text = given.includes('://') ? given : `http://${given}`
  // An address may hold a password.
  if (!/^https?:/i.test(text) || !URL.canParse(text)) {
    throw new TypeError('an address of the platform is no http or https URL')
  }
  return text
}

/** Built-in modules are asked for, not imported: bundles for browsers hold no trace of them. */
function thisRuntime(): Runtime {
  const { process } = globalThis as { process?: Partial<NodeJS.Process> }
  const fs = process?.getBuiltinModule?.('node:fs')
  return {
    environment: process?.env ?? {},
    ...(fs && {
      files: {
        read: (path) => fs.readFileSync(path, 'utf8'),
        list(path) {
          try {
            return fs.readdirSync(path)
          } catch {
            return []
          }
        },
      },
    }),
  }
}
