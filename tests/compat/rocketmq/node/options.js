// Options as --name value, and --name alone for a switch.
'use strict';

function parsed(args) {
  const options = {};
  for (let at = 0; at < args.length; at++) {
    if (!args[at].startsWith('--')) throw new Error(`not an option: ${args[at]}`);
    const alone = at + 1 === args.length || args[at + 1].startsWith('--');
    options[args[at].slice(2)] = alone ? true : args[++at];
  }
  return options;
}

// What producers and consumers are both told. The client wants an HTTP client even when it is given a name server.
function client(options) {
  return { httpclient: require('urllib'), nameSrv: options.namesrv, logger: LOGGER };
}

const LOGGER = { info() {}, debug() {}, warn: console.error, error: console.error };

module.exports = { parsed, client };
