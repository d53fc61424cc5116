/** The whole platform on embedded engines in this process, with what the flow tests of the main API ask of it. */

import { issueAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import { type Access, type NewAgent, showAgent } from '#services/access/agents/agents.ts'
import { type Answer, type BareCall, call as bareCall } from './gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from './gateway-platform.ts'

export interface MainApiPlatform extends GatewayPlatform {
  baseUrl: string
  /** An agent key of the agent, which is provisioned first where it is not known. */
  issueKey(agentId: string, agent?: Partial<NewAgent>): Promise<{ key: string; id: string; uid: string }>
  /** The three stages over HTTP. */
  idTokenOf(agentId: string, agent?: Partial<NewAgent>): Promise<string>
  /** An ID token of an agent with this access, made once. */
  tokenFor(access: Access): Promise<string>
  call(method: string, path: string, given?: ApiCall): Promise<Answer>
}

export interface ApiCall extends Pick<BareCall, 'body' | 'headers'> {
  token?: string
}

export async function openMainApiPlatform(
  env: Record<string, string> = {},
  options: Parameters<typeof openGatewayPlatform>[1] = {},
): Promise<MainApiPlatform> {
  // Each trade of a key may come from an address of its own: the limits of one test do not meet another.
  const platform = await openGatewayPlatform({ TRUSTED_PROXIES: '127.0.0.0/8', ...env }, options)
  const baseUrl = platform.addresses.base_url as string
  const { relational } = platform.platform.engines
  const tokens = new Map<Access, Promise<string>>()

  function call(method: string, path: string, { token, ...given }: ApiCall = {}): Promise<Answer> {
    return bareCall(baseUrl, path, { method, ...given, ...(token === undefined ? {} : { key: token }) })
  }

  async function issueKey(agentId: string, agent: Partial<NewAgent> = {}) {
    const known = await showAgent(relational, agentId).catch(() => null)
    const { uid } = known ?? (await platform.provision({ agentId, ...agent }))
    const { record, key } = await issueAgentKey(relational, { agentId })
    return { key, id: record.id, uid }
  }

  async function idTokenOf(agentId: string, agent: Partial<NewAgent> = {}): Promise<string> {
    const { key } = await issueKey(agentId, agent)
    return exchange(call, await trade(call, key))
  }

  return {
    ...platform,
    baseUrl,
    call,
    issueKey,
    idTokenOf,
    tokenFor(access) {
      const token = tokens.get(access) ?? idTokenOf(`an-${access}`, { access })
      tokens.set(access, token)
      return token
    },
  }
}

type Call = MainApiPlatform['call']

/** Stage 1: the custom token. */
export async function trade(call: Call, key: string): Promise<string> {
  const { status, json, text } = await call('POST', '/api/v1/auth/agent', { body: { key } })
  if (status !== 200) throw new Error(`the key was not traded: ${text}`)
  return (json.data as { customToken: string }).customToken
}

export const exchangePath = '/identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken?key=any'

/** Stage 2: the ID token. */
export async function exchange(call: Call, customToken: string): Promise<string> {
  const body = { token: customToken, returnSecureToken: true }
  const { status, json, text } = await call('POST', exchangePath, { body })
  if (status !== 200) throw new Error(`the custom token was not exchanged: ${text}`)
  return json.idToken as string
}
