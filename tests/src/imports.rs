//! The imports between the files of a crate, from their `use` declarations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::{Attribute, Item, UseTree};

use crate::repository::{files, root};

/// A module's path, such as `run::folder::lock`. The crate's root is the empty path.
pub type Module = Vec<String>;

/// A `use` declaration: the name that it imports (`*` for all), and its path.
type Use = (String, Vec<String>);

/// The imports of a crate between its files: the imported modules, by importing module. Tests are left out, and so are imports between a
/// module and its own submodules.
#[derive(Debug)]
pub struct Imports(pub BTreeMap<Module, BTreeSet<Module>>);

/// Modules that import each other in a circle.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circle {
    /// The module whose children they are.
    pub parent: Module,
    /// The children, each with its submodules.
    pub modules: BTreeSet<String>,
    /// Whether one of them has submodules.
    pub has_folder: bool,
    /// The imports between them.
    pub imports: Vec<String>,
}

impl Imports {
    /// Reads the crate whose sources are in `folder`, relative to the repository's root.
    ///
    /// # Panics
    /// If a file cannot be read or parsed.
    #[must_use]
    pub fn of_crate(folder: &str) -> Self {
        let mut uses: BTreeMap<Module, Vec<Use>> = BTreeMap::new();
        for path in files(folder, &[".rs"]) {
            let module = module(path.strip_prefix(root().join(folder)).unwrap_or(&path));
            if module.iter().any(|name| name == "tests") {
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("a source is UTF-8");
            let file = syn::parse_file(&source)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let found = uses.entry(module).or_default();
            for item in &file.items {
                if let Item::Use(declaration) = item
                    && !is_test(&declaration.attrs)
                {
                    flatten(&declaration.tree, &[], found);
                }
            }
        }
        let targets = |module: &Module| {
            let paths = uses[module].iter().map(|(_, path)| path);
            let targets = paths.filter_map(|path| resolve(module, path, &uses, 0));
            let is_own = |target: &Module| target.starts_with(module) || module.starts_with(target);
            targets.filter(|target| !is_own(target)).collect()
        };
        let edges = uses.keys().map(|module| (module.clone(), targets(module)));
        Self(edges.collect())
    }

    /// The circles among the children of each module.
    #[must_use]
    pub fn circles(&self) -> BTreeSet<Circle> {
        let parents = |module: &Module| (0..module.len()).map(|n| module[..n].to_vec()).collect();
        let parents: BTreeSet<Module> = self
            .0
            .keys()
            .flat_map(|m| -> Vec<_> { parents(m) })
            .collect();
        parents
            .iter()
            .flat_map(|parent| self.circles_in(parent))
            .collect()
    }

    fn circles_in(&self, parent: &[String]) -> BTreeSet<Circle> {
        let child = |module: &Module| Some(module.strip_prefix(parent)?.first()?.clone());
        let pairs = || {
            let pairs = self
                .0
                .iter()
                .flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
            pairs.filter_map(|(from, to)| Some((child(from)?, child(to)?, from, to)))
        };
        let mut reach: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (a, b, ..) in pairs().filter(|(a, b, ..)| a != b) {
            reach.entry(a).or_default().insert(b);
        }
        // As often as a path can have steps: what one reaches, whoever reaches that one reaches too.
        for _ in 0..reach.len() {
            let before = reach.clone();
            for reached in reach.values_mut() {
                let further = reached.iter().filter_map(|next| before.get(next));
                let further: Vec<String> = further.flatten().cloned().collect();
                reached.extend(further);
            }
        }
        let reaches = |a: &String, b: &String| reach.get(a).is_some_and(|all| all.contains(b));
        let circles = reach.keys().filter(|name| reaches(name, name));
        let circle = |name: &String| {
            let modules: BTreeSet<String> = reach[name]
                .iter()
                .filter(|b| reaches(b, name))
                .cloned()
                .collect();
            let is_inside = |m: &Module| child(m).is_some_and(|child| modules.contains(&child));
            let has_folder = self
                .0
                .keys()
                .any(|m| m.len() > parent.len() + 1 && is_inside(m));
            let imports =
                pairs().filter(|(a, b, ..)| a != b && modules.contains(a) && modules.contains(b));
            let imports = imports
                .map(|(.., from, to)| format!("{} imports {}", from.join("::"), to.join("::")));
            Circle {
                parent: parent.to_vec(),
                imports: imports.collect(),
                modules,
                has_folder,
            }
        };
        circles.map(circle).collect()
    }
}

/// The module that a file of a crate's `src` is.
fn module(path: &Path) -> Module {
    let parts = path.with_extension("");
    let parts = parts.iter().map(|part| part.to_string_lossy().into_owned());
    parts
        .filter(|part| !["lib", "main", "mod"].contains(&&**part))
        .collect()
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let word = attribute.parse_args::<syn::Ident>();
        attribute.path().is_ident("cfg") && word.is_ok_and(|word| word == "test")
    })
}

fn flatten(tree: &UseTree, prefix: &[String], uses: &mut Vec<Use>) {
    let path = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(tree) => flatten(&tree.tree, &path(&tree.ident), uses),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, uses);
            }
        }
        UseTree::Name(tree) => uses.push((tree.ident.to_string(), path(&tree.ident))),
        UseTree::Rename(tree) => uses.push((tree.rename.to_string(), path(&tree.ident))),
        UseTree::Glob(_) => uses.push(("*".to_owned(), prefix.to_vec())),
    }
}

/// Maximum re-exports that are followed; more would be a circle of re-exports.
const MAX_REEXPORTS: usize = 8;

/// The module of this crate that defines the item at a path: the longest prefix that is a module, after following re-exports. `None` for other crates.
fn resolve(
    module: &[String],
    path: &[String],
    uses: &BTreeMap<Module, Vec<Use>>,
    depth: usize,
) -> Option<Module> {
    let mut at = module.to_vec();
    let mut rest = path;
    while let [name, after @ ..] = rest {
        match name.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            _ => break,
        }
        rest = after;
    }
    let rooted = rest.len() < path.len();
    let mut entered = false;
    while let [name, after @ ..] = rest
        && uses.contains_key(&[&at[..], std::slice::from_ref(name)].concat())
    {
        at.push(name.clone());
        (rest, entered) = (after, true);
    }
    // Without a root, the first name is a submodule or another crate.
    if !rooted && !entered {
        return None;
    }
    let exported = rest.first().and_then(|name| {
        let (_, path) = uses
            .get(&at)?
            .iter()
            .find(|(imported, _)| imported == name)?;
        let follows = depth < MAX_REEXPORTS && at != module;
        follows.then(|| resolve(&at, path, uses, depth + 1))?
    });
    Some(exported.unwrap_or(at))
}
