import { rollingUpgrade } from './rolling-upgrade.promises.ts'

rollingUpgrade('6a6b61e', 'back')
